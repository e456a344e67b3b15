"""Searches for a schedule that breaks a promise of the write log, for as long as asked; or replays one.

python -m tests.log.torture --schedules 1000000
python -m tests.log.torture --replay 4711
"""

from __future__ import annotations

import argparse
import sys

from tests.log.simulation.search import first_failure, replayed

_AT_ONCE = 10_000


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.log.torture", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1_000_000, metavar="FIRST", help="the first seed")
    parser.add_argument("--schedules", type=int, default=100_000, metavar="N", help="how many")
    parser.add_argument("--replay", type=int, metavar="SEED", help="print the schedule of one seed, step by step")
    asked = parser.parse_args()
    if asked.replay is not None:
        sys.stdout.write(replayed(asked.replay) + "\n")
        return 0
    for first in range(asked.seeds, asked.seeds + asked.schedules, _AT_ONCE):
        last = min(first + _AT_ONCE, asked.seeds + asked.schedules)
        if (seed := first_failure(range(first, last))) is not None:
            sys.stdout.write(replayed(seed) + "\n")
            return 1
        sys.stdout.write(f"{last - asked.seeds} schedules, all promises kept\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
