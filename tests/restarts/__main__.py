"""Runs a campaign of restarts and prints a line of JSON for each; ends with 1 where a promise was broken."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from tests.fixtures.postgres import serve_postgres
from tests.restarts.campaign import STUCK_SECONDS, Campaign, Restart
from tests.restarts.inspection import Found

_SHOWN = 20
"""Scopes of each fault."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.restarts")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--restarts", type=int, default=10)
    parser.add_argument("--tenants", type=int, default=10_000)
    parser.add_argument("--longest", type=float, default=90.0, help="seconds from a start to the end of `ui`, at the most")
    parser.add_argument("--storage", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("--place", type=Path, help="a directory to keep; a temporary one otherwise")
    given = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it, and so would `ui`
    broken = False
    with ExitStack() as stack:
        place = given.place or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lakewarden-restarts-")))
        server = stack.enter_context(serve_postgres()) if given.storage == "postgres" else None
        for found in Campaign(place, given.seed, given.tenants, given.longest, server).run(given.restarts):
            said = {name: value[:_SHOWN] if isinstance(value, tuple) else value for name, value in asdict(found).items()}
            print(json.dumps(said), flush=True)  # noqa: T201
            broken = broken or _is_wrong(found)
    return int(broken)


def _is_wrong(found: Restart | Found) -> bool:
    return found.stuck > STUCK_SECONDS if isinstance(found, Restart) else found.wrong


if __name__ == "__main__":
    sys.exit(main())
