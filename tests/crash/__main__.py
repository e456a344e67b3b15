"""Runs a campaign of cuts and prints a line of JSON for each; ends with 1 where a promise was broken."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.crash.campaign import Campaign, cuts_of
from tests.crash.disk import FILE_SYSTEMS, room


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.crash")
    parser.add_argument("--kind", choices=FILE_SYSTEMS, default="ext4-ordered")
    parser.add_argument("--seed", type=int, default=1, help="of the first disk; each further disk has the next")
    parser.add_argument("--cuts", type=int, default=20)
    parser.add_argument("--keep", type=Path, help="a directory for what a violation left")
    parser.add_argument("--room", type=Path, default=room(Path(tempfile.gettempdir())), help="where disks are made")
    parser.add_argument("--deaf", choices=["fsync", "syncfs"], default="", help="the library's own do nothing")
    arguments = parser.parse_args()
    broken = False
    campaign = Campaign(arguments.kind, arguments.room, arguments.keep, arguments.deaf)
    for cut in cuts_of(campaign, arguments.seed, arguments.cuts):
        print(cut.line(), flush=True)  # noqa: T201
        broken = broken or bool(cut.wrong)
        if broken and arguments.deaf:
            break  # it was found out
    return int(broken)


if __name__ == "__main__":
    sys.exit(main())
