"""One side of a comparison in pairs (benchmarks/pairs.py): runs one measurement for each line of standard input.

It runs with the environment of either commit, so it uses only what both have. A line names a measurement; the answer is the
seconds that its next round took. What a round needs is prepared before its clock starts.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import count

from benchmarks import data
from benchmarks.timing import quiet_seconds
from lakewarden.lakehouse import Lakehouse
from lakewarden.settings import FlushSettings, Settings
from lakewarden.table import TableClient

_IN_PROCESS = Settings(flush=FlushSettings(in_process_below=1 << 20))
_ON_SPARK = Settings(flush=FlushSettings(in_process_below=0))


@dataclass(frozen=True)
class Size:
    appends: int
    bulk_rows: int
    bulk_users: int
    scopes: int
    """Of a flush in process, on a disk and on an object store."""
    spark_scopes: int
    rows: int
    """Of a scope, that a flush brings; half of them replace existing ones."""


SIZES = {
    "full": Size(appends=500, bulk_rows=200_000, bulk_users=2_000, scopes=40, spark_scopes=400, rows=200),
    "tiny": Size(appends=3, bulk_rows=20, bulk_users=4, scopes=2, spark_scopes=2, rows=4),
}


def appends(place: str, size: Size) -> Iterator[float]:
    """So many durable writes of one row."""
    with Lakehouse.open(f"{place}/appends") as lake:
        events = data.create(lake)
        for turn in count():
            rows = [data.rows(["u"], turn * size.appends + each, 1).drop_columns(["user"]) for each in range(size.appends)]
            yield quiet_seconds(_append, events, [row.to_pylist() for row in rows])


def bulk(place: str, size: Size) -> Iterator[float]:
    """One write of many rows of many users."""
    users, each = data.users(size.bulk_users), size.bulk_rows // size.bulk_users
    with Lakehouse.open(f"{place}/bulk") as lake:
        events = data.create(lake)
        for turn in count():
            yield quiet_seconds(events.write, data.rows(users, turn * each, each), user_column="user")


def first_flush(place: str, size: Size, settings: Settings = _IN_PROCESS) -> Iterator[float]:
    """A flush that makes the tables of all of its scopes."""
    for turn in count():
        with Lakehouse.open(f"{place}/first-{turn}", settings=settings) as lake:
            data.create(lake).write(data.rows(data.users(size.scopes), 0, size.rows), user_column="user")
            yield quiet_seconds(_flush, lake, size.scopes)


def flush(uri: str, scopes: int, rows: int, settings: Settings = _IN_PROCESS) -> Iterator[float]:
    """A flush of scopes that have tables, half of its rows in place of others."""
    users = data.users(scopes)
    with Lakehouse.open(uri, settings=settings) as lake:
        events = data.create(lake)
        events.write(data.rows(users, 0, rows), user_column="user")
        _flush(lake, scopes)
        for turn in count(1):
            events.write(data.rows(users, turn * rows // 2, rows), user_column="user")
            yield quiet_seconds(_flush, lake, scopes)


def counted(place: str, scopes: int) -> Iterator[float]:
    """A write and a flush in turns, for the other side of a proxy to count."""
    users = data.users(scopes)
    with Lakehouse.open(f"{place}/counted-{scopes}", settings=_IN_PROCESS) as lake:
        events = data.create(lake)
        for turn in count():
            yield quiet_seconds(events.write, data.rows(users, turn * 10, 10), user_column="user")
            yield quiet_seconds(_flush, lake, scopes)


def _append(events: TableClient, rows: list[list[dict[str, object]]]) -> None:
    for row in rows:
        events.write(row, user="u")


def _flush(lake: Lakehouse, scopes: int) -> None:
    done = [report for report in lake.flush(data.TABLE) if report.outcome == "done"]
    assert len(done) == scopes, f"{len(done)} of {scopes} scopes were flushed"


def main(place: str, size: Size) -> None:
    begin = {
        "appends": partial(appends, place, size),
        "bulk": partial(bulk, place, size),
        "first flush": partial(first_flush, place, size),
        "flush": partial(flush, f"{place}/flush", size.scopes, size.rows),
        "flush on Spark": partial(flush, f"{place}/on-spark", size.spark_scopes, size.rows, _ON_SPARK),
    }
    running: dict[str, Iterator[float]] = {}
    for line in sys.stdin:
        name, _, scopes = line.strip().partition(":")
        if line not in running:
            running[line] = counted(place, int(scopes)) if scopes else begin[name]()
        print(f"took {next(running[line])}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], SIZES[sys.argv[2]])
