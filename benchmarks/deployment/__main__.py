"""Writes what `booked` and `partitions` of this package printed into docs/performance.md.

    python -m benchmarks.deployment.booked 10000 > new.json
    (cd ../before && PYTHONPATH=. .venv/bin/python …/benchmarks/deployment/booked.py 10000 > old.json)
    python -m benchmarks.deployment.partitions > partitions.json
    python -m benchmarks.deployment partitions.json new.json old.json

Several pairs of new and old may follow the partitions.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.__main__ import PAGE
from benchmarks.deployment.booked import A_RUN, Printed
from benchmarks.measuring.page import Section, Table, rewrite


def main(partitions: str, *booked: str) -> None:
    section = Section("deployment", "full")
    found: list[Printed] = [json.loads(Path(one).read_text()) for one in booked]
    rows = [row for new, old in zip(found[::2], found[1::2], strict=True) for row in _compared(new, old)]
    section.tables.append(
        Table(
            f"Booking of one event for each user, in runs of {A_RUN:,}, on this commit and on 2cf77bf: processor time of the"
            " run's process, and SQL statements. Target: not slower.",
            ("users", "storage", "before", "now", "now is, times", "statements before", "statements now"),
            rows,
        )
    )
    measured = json.loads(Path(partitions).read_text())
    section.tables.append(
        Table(
            "15,000 users of a table on Postgres: ticks of sensors, calls behind the pages of its asset, and Dagster's"
            " own planning of an asset run, by one process. Target: a tick below 10 s.",
            ("what", "processor time", "statements"),
            [(what, f"{seconds:.3f} s", f"{statements:,}") for what, (seconds, statements) in measured.items()],
        )
    )
    rewrite(PAGE, section, datetime.now(UTC))


def _compared(new: Printed, old: Printed) -> Iterator[Sequence[str]]:
    assert new["users"] == old["users"]
    for storage in ("Postgres", "SQLite"):
        if storage in new["booked"]:
            (now, statements), (before, earlier) = new["booked"][storage], old["booked"][storage]
            ratio = f"{now / before:.2f}"
            yield f"{new['users']:,}", storage, f"{before:.2f} s", f"{now:.2f} s", ratio, f"{earlier:,}", f"{statements:,}"


if __name__ == "__main__":
    main(*sys.argv[1:])
