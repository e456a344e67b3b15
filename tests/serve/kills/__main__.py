"""python -m tests.serve.kills --seconds 600 --kill-every 20: says what it found as JSON; ends with 1 if a row is wrong."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from tests.serve.kills.campaign import Campaign


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.serve.kills")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--kill-every", type=float, default=20.0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lakewarden-kills-") as place:
        found = Campaign(Path(place), given.seed, given.seconds, given.kill_every).run()
    print(json.dumps(asdict(found)))  # noqa: T201
    return int(bool(found.wrong))


if __name__ == "__main__":
    sys.exit(main())
