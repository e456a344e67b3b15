"""One side of a comparison in pairs (benchmarks/pairs.py): runs one measurement for each line of standard input.

It runs with the environment of either commit, so it uses only what both have. A line names a measurement; the answer is the
seconds that its next round took. What a round needs is prepared before its clock starts.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import count
from random import Random
from time import process_time
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
import pyarrow as pa

from benchmarks import data
from benchmarks.measuring.timing import quiet_seconds
from benchmarks.serving import Clients, served, token_of
from lakewarden import Column, Lakehouse, Settings

if TYPE_CHECKING:  # modules move from commit to commit; what is imported while it runs is public
    from lakewarden.catalog.report import ScopeReport
    from lakewarden.tables.client import TableClient

_IN_PROCESS = msgspec.convert({"flush": {"in_process_below": 1 << 20}}, Settings)
_INSERT = "INSERT INTO bench.events (id, kind, at) VALUES (?, 'order', '2026-11-22 10:00:00')"
_ON_SPARK = msgspec.convert({"flush": {"in_process_below": 0}}, Settings)


_FEW_ROWS = 20
"""Of a scope in each flush, where not the size of scopes is measured."""

Operation: TypeAlias = "Callable[[Lakehouse], Sequence[ScopeReport]]"
"""Runs over all scopes of the table."""


@dataclass(frozen=True)
class Size:
    appends: int
    bulk_rows: int
    bulk_users: int
    inserted: int
    """Rows of an INSERT of many."""
    scopes: int
    """Of a flush in process, on a disk and on an object store."""
    spark_scopes: int
    stored_scopes: int
    """Of a flush on Spark to an object store."""
    rows: int
    """Of a scope, that a flush brings; half of them replace existing ones."""
    existing: int
    """Scopes that have tables, of which `scopes` are dirty."""
    cold_rows: int
    """Of the scope that is queried, a hundredth of which are hot besides."""
    queries: int
    merged: int
    """Scopes of a flush whose processor time is measured."""


SIZES = {
    "full": Size(
        appends=500,
        bulk_rows=200_000,
        bulk_users=2_000,
        inserted=10_000,
        scopes=40,
        spark_scopes=400,
        stored_scopes=1_000,
        rows=200,
        existing=1_000,
        cold_rows=100_000,
        queries=50,
        merged=150,
    ),
    "tiny": Size(
        appends=3,
        bulk_rows=20,
        bulk_users=4,
        inserted=110,
        scopes=2,
        spark_scopes=2,
        stored_scopes=2,
        rows=4,
        existing=4,
        cold_rows=100,
        queries=2,
        merged=2,
    ),
}


@dataclass(frozen=True)
class Shape:
    """A table, and rows of a scope: as many as there are, and the last of them, which a flush replaces."""

    columns: tuple[Column, ...]
    primary_key: tuple[str, ...]
    existing: int
    replaced: int

    def rows(self, users: Sequence[str], first: int, count: int, turn: int) -> pa.Table:
        """`count` rows of each user, their keys numbered from `first` on; other values differ from turn to turn."""
        numbers = [number for number in range(first, first + count) for _ in users]
        columns = {column.name: self._values(column, numbers, turn) for column in self.columns}
        return pa.table({"user": pa.array(list(users) * count), **columns})

    def _values(self, column: Column, numbers: Sequence[int], turn: int) -> pa.Array[Any]:
        given = pa.array(numbers if column.name in self.primary_key else [number + turn for number in numbers], pa.int32())
        kinds: dict[str, Any] = {"INT": pa.int32(), "BIGINT": pa.int64(), "TEXT": pa.string()}
        return given.cast(kinds[column.type]) if column.type in kinds else given.cast(pa.int64()).cast(pa.timestamp("us", "UTC"))


_FLIGHTS = (
    "time_hour TIMESTAMP, carrier TEXT, flight INT, year INT, month INT, day INT, dep_time INT, sched_dep_time INT, "
    "dep_delay INT, arr_time INT, sched_arr_time INT, arr_delay INT, origin TEXT, dest TEXT, air_time INT, distance INT, "
    "hour INT, minute INT, note TEXT"
)
"""As those of the demo."""


def _columns(text: str) -> tuple[Column, ...]:
    return tuple(Column(name, kind) for name, kind in map(str.split, text.split(", ")))


NARROW = Shape(_columns("id BIGINT, at TIMESTAMP, note TEXT"), ("id",), existing=1_000, replaced=200)
WIDE = Shape(_columns(_FLIGHTS), ("time_hour", "carrier", "flight"), existing=150, replaced=30)


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


def inserts(place: str, size: Size, clients: int, rows: int) -> Iterator[float]:
    """An INSERT by each of some clients into one keyed SHARED table, beside many pending rows with keys by chance."""
    draw = Random(7)

    def some(count: int) -> pa.Table:
        return pa.table({"id": pa.array([draw.getrandbits(62) for _ in range(count)], pa.int64())})

    with Lakehouse.open(place, settings=_IN_PROCESS) as lake, ThreadPoolExecutor(clients) as pool:
        lake.create_namespace("bench")
        table = lake.create_table(data.TABLE, type="SHARED", columns=[Column("id", "BIGINT")], primary_key=["id"])
        for _ in range(30):
            table.write(some(size.inserted), mode="insert")
        while True:
            given = [some(rows) for _ in range(clients)]
            yield quiet_seconds(lambda: list(pool.map(lambda each: table.write(each, mode="insert"), given)))  # noqa: B023


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


def merges(place: str, scopes: int, shape: Shape) -> Iterator[float]:
    """Seconds of processor time, of all threads, that a flush takes for each scope: small merges, in this process."""
    users = data.users(scopes)
    with Lakehouse.open(place, settings=_IN_PROCESS) as lake:
        lake.create_namespace("bench")
        table = lake.create_table(data.TABLE, type="USER", columns=shape.columns, primary_key=shape.primary_key)
        table.write(shape.rows(users, 0, shape.existing, 0), user_column="user")
        _flush(lake, scopes)
        for turn in count(1):
            table.write(shape.rows(users, shape.existing - shape.replaced, shape.replaced, turn), user_column="user")
            begun = process_time()
            _flush(lake, scopes)
            yield (process_time() - begun) / scopes


def few_of_many(place: str, size: Size) -> Iterator[float]:
    """A flush of a few dirty scopes of many."""
    with Lakehouse.open(f"{place}/many", settings=_IN_PROCESS) as lake:
        events = data.create(lake)
        events.write(data.rows(data.users(size.existing), 0, _FEW_ROWS), user_column="user")
        _flush(lake, size.existing)
        for turn in count(1):
            events.write(data.rows(data.users(size.scopes), turn * _FEW_ROWS // 2, _FEW_ROWS), user_column="user")
            yield quiet_seconds(_flush, lake, size.scopes)


def maintained(place: str, size: Size, operation: Operation) -> Iterator[float]:
    """An operation on scopes to which two files were appended since it last ran."""
    users = data.users(size.scopes)
    with Lakehouse.open(f"{place}/maintained", settings=_IN_PROCESS) as lake:
        events = data.create(lake)
        for turn in count():
            for half in (0, 1):
                events.write(data.rows(users, (2 * turn + half) * _FEW_ROWS, _FEW_ROWS), user_column="user")
                _flush(lake, size.scopes)
            yield quiet_seconds(_check, operation, lake)


def _optimize(lake: Lakehouse) -> Sequence[ScopeReport]:
    return lake.optimize(data.TABLE)


def _vacuum(lake: Lakehouse) -> Sequence[ScopeReport]:
    return lake.vacuum(data.TABLE)


def _restore(lake: Lakehouse) -> Sequence[ScopeReport]:
    return lake.restore(data.TABLE, timestamp=datetime.now(UTC), dry_run=True)


def _check(operation: Operation, lake: Lakehouse) -> None:
    faults = [report.fault for report in operation(lake) if report.fault]
    assert not faults, faults[0]


def query(place: str, size: Size, sql: str) -> Iterator[float]:
    """So many strong queries on one session, of a scope with cold and hot rows."""
    with Lakehouse.open(f"{place}/query", settings=_IN_PROCESS) as lake:
        events = data.create(lake)
        events.write(data.rows(["u"], 0, size.cold_rows), user_column="user")
        _flush(lake, 1)
        events.write(data.rows(["u"], size.cold_rows, size.cold_rows // 100), user_column="user")
        session = lake.session(user="u")
        said = sql.format(table=data.TABLE, middle=size.cold_rows // 2)
        while True:
            yield quiet_seconds(lambda: [session.sql(said) for _ in range(size.queries)])


def counted(place: str, scopes: int) -> Iterator[float]:
    """A write and a flush in turns, for the other side of a proxy to count."""
    users = data.users(scopes)
    with Lakehouse.open(f"{place}/counted-{scopes}", settings=_IN_PROCESS) as lake:
        events = data.create(lake)
        for turn in count():
            yield quiet_seconds(events.write, data.rows(users, turn * 10, 10), user_column="user")
            yield quiet_seconds(_flush, lake, scopes)


def http_writes(place: str, size: Size, *, keyed: bool) -> Iterator[float]:
    """So many INSERTs of one row each over HTTP, by one client; with an Idempotency-Key each, or without."""
    with Lakehouse.open(f"{place}/http", settings=_IN_PROCESS) as lake:
        data.create(lake)
    token = token_of(f"{place}/http")
    with served(f"{place}/http", {"LAKEWARDEN_SERVE__REQUESTS_PER_MINUTE": "1000000"}) as address:
        clients = Clients(address, [token])
        for turn in count():
            numbers = range(turn * size.appends, (turn + 1) * size.appends)
            bodies = [{"sql": _INSERT, "params": [each]} for each in numbers]
            keys = [{"Idempotency-Key": f"{turn}-{each}"} if keyed else {} for each in numbers]
            yield quiet_seconds(_post, clients, bodies, keys)


def _post(clients: Clients, bodies: Sequence[object], headers: Sequence[Mapping[str, str]]) -> None:
    for body, header in zip(bodies, headers, strict=True):
        clients.post(0, "/v1/api/sql", body, headers=header)


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
        "inserts of many rows at once": partial(inserts, f"{place}/inserts", size, 16, size.inserted),
        "inserts of a row beside many": partial(inserts, f"{place}/insert", size, 1, 1),
        "first flush": partial(first_flush, place, size),
        "flush": partial(flush, f"{place}/flush", size.scopes, size.rows),
        "narrow merges": partial(merges, f"{place}/narrow", size.merged, NARROW),
        "wide merges": partial(merges, f"{place}/wide", size.merged, WIDE),
        "few of many": partial(few_of_many, place, size),
        "optimize": partial(maintained, f"{place}/optimize", size, _optimize),
        "vacuum (dry run)": partial(maintained, f"{place}/vacuum", size, _vacuum),
        "restore (dry run)": partial(maintained, f"{place}/restore", size, _restore),
        "point look-up": partial(query, f"{place}/look-up", size, "SELECT * FROM {table} WHERE id = {middle}"),
        "count": partial(query, f"{place}/count", size, "SELECT count(*) FROM {table}"),
        "aggregate": partial(query, f"{place}/aggregate", size, "SELECT kind, count(*), sum(amount) FROM {table} GROUP BY kind"),
        "HTTP writes": partial(http_writes, f"{place}/plain", size, keyed=False),
        "keyed HTTP writes": partial(http_writes, f"{place}/keyed", size, keyed=True),
        "flush on Spark": partial(flush, f"{place}/on-spark", size.spark_scopes, size.rows, _ON_SPARK),
        "flush of many on Spark": partial(flush, f"{place}/many-on-spark", size.stored_scopes, size.rows, _ON_SPARK),
    }
    running: dict[str, Iterator[float]] = {}
    for line in sys.stdin:
        name, _, scopes = line.strip().partition(":")
        if line not in running:
            running[line] = counted(place, int(scopes)) if scopes else begin[name]()
        print(f"took {next(running[line])}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], SIZES[sys.argv[2]])
