"""python -m tests.serve.isolation --sessions 3000: half by HTTP, a fifth by PostgreSQL's protocol, the others subscribe."""

from __future__ import annotations

import argparse
import sys
import tempfile

from lakewarden import Lakehouse
from tests.serve.isolation.campaign import LIMITS, Sessions, live


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.serve.isolation")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sessions", type=int, default=3000)
    parser.add_argument("--people", type=int, default=60)
    given = parser.parse_args()
    http, postgres = given.sessions // 2, given.sessions // 5
    of = Sessions(http, postgres, given.sessions - http - postgres)
    with (
        tempfile.TemporaryDirectory(prefix="lakewarden-isolation-") as place,
        Lakehouse.open(place + "/w", settings=LIMITS) as lake,
    ):
        world = live(lake, of, given.people, given.seed)
    print(f"{given.sessions} sessions at once: {world.answers} answers held what is their reader's own, none another's")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
