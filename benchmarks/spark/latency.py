"""How long a stream takes from a write to its reader, and how many rows a second: ours beside Delta's change data feed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median
from time import perf_counter, sleep
from typing import Protocol

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from benchmarks.measuring.page import Table
from benchmarks.measuring.scale import Scale
from benchmarks.measuring.timing import percentile, quiet_seconds
from benchmarks.spark.rows import COLUMNS, made
from lakewarden import Column
from lakewarden.base.scope import TableName
from lakewarden.client import Lakehouse
from lakewarden.tables.changes.feed import ChangeFeed

_USERS, _SHARED = "bench.streamed", "bench.streamed_shared"
_PACE = 0.25
"""Seconds between the beginnings of two writes, of which most streams are done with the one before."""
_HEAD = ("", "p50", "p99", "rows/s")


class Changing(Protocol):
    """A table that is written, and whose changes are streamed."""

    def write(self, rows: pa.Table) -> object: ...

    def here(self) -> int:
        """The place in its changes at which the next write's begin."""
        ...

    def since(self, here: int) -> DataFrame: ...


@dataclass(frozen=True)
class Ours:
    lake: Lakehouse
    spark: SparkSession
    name: str
    user_column: str | None

    def write(self, rows: pa.Table) -> object:
        return self.lake.table(self.name).write(rows, user_column=self.user_column)

    def here(self) -> int:
        return ChangeFeed(self.lake.warehouse, TableName.parse(self.name)).end()

    def since(self, here: int) -> DataFrame:
        return self.spark.readStream.format("lakewarden").option("table", self.name).option("starting_from", f"seq:{here}").load()


@dataclass(frozen=True)
class TheirFeed:
    """A Delta table with `delta.enableChangeDataFeed`; it is written by delta-rs, which takes less time for it than Spark."""

    spark: SparkSession
    uri: str

    def write(self, rows: pa.Table) -> object:
        return write_deltalake(self.uri, rows, mode="append", configuration={"delta.enableChangeDataFeed": "true"})

    def here(self) -> int:
        return DeltaTable(self.uri).version() + 1

    def since(self, here: int) -> DataFrame:
        return (
            self.spark.readStream.format("delta").option("readChangeFeed", "true").option("startingVersion", here).load(self.uri)
        )


def streams(lake: Lakehouse, scale: Scale, place: Path, spark: SparkSession) -> Table:
    """Each table has rows of all users, flushed, before its changes are measured."""
    scopes, rows = scale.spark
    lake.create_table(_USERS, type="USER", columns=COLUMNS, primary_key=["id"])
    owned = (Column("who", "TEXT", nullable=False), *COLUMNS)
    lake.create_table(_SHARED, type="SHARED", columns=owned, primary_key=["who", "id"])
    theirs, shared = TheirFeed(spark, str(place / "their-feed")), Ours(lake, spark, _SHARED, None)
    ways: dict[str, Changing] = {
        "Delta's change data feed": theirs,
        "ours, a SHARED table": shared,
        f"ours, {scopes:,} users": Ours(lake, spark, _USERS, "who"),
    }
    there = max(1, rows // 10)
    for way in ways.values():
        way.write(made(range(scopes), range(there)))
    for name in (_USERS, _SHARED):
        lake.flush(name)
    writes, at_once = max(2, scale.appends // 10), max(1, scale.bulk_rows // scopes)
    lines = []
    for name, way in ways.items():
        fresh = count(there)
        waited = _latencies(way, fresh, writes, scopes, place / f"checkpoints of {name}")
        ids = partial(_next_ids, fresh, at_once)
        taken = [_drained(way, made(range(scopes), ids()), place / f"{number} of {name}") for number in range(scale.rounds)]
        rate = scopes * at_once / median(taken)
        lines.append((name, f"{percentile(waited, 50):.2f} s", f"{percentile(waited, 99):.2f} s", f"{rate:,.0f}"))
    said = (
        f"Streams, from the beginning of a write to the reader's `foreachBatch`: {writes} writes of one new row, one each"
        f" {_PACE:g} s, where {scopes:,} users have {there:,} rows each. Rows a second: {scopes * at_once:,} new rows, written as"
        " one call, and read by a query that starts, takes them into a sink that keeps nothing, and ends."
    )
    return Table(said, _HEAD, lines)


def _next_ids(fresh: Iterator[int], rows: int) -> range:
    first = next(fresh)
    for _ in range(rows - 1):
        next(fresh)
    return range(first, first + rows)


def _latencies(way: Changing, fresh: Iterator[int], writes: int, scopes: int, checkpoint: Path) -> list[float]:
    """Seconds that each of the writes took to be read; the first, which waits for the query to start, is none of them."""
    written, seen = dict[int, float](), dict[int, float]()

    def write(user: int) -> None:
        (number,) = _next_ids(fresh, 1)
        rows = made(range(user, user + 1), range(number, number + 1))
        written[number] = perf_counter()
        way.write(rows)

    here = way.here()
    write(0)
    with _reading(way.since(here), seen, checkpoint) as query:
        _wait(query, written, seen)
        first = set(written)
        for turn in range(writes):
            begun = perf_counter()
            write(turn % scopes)
            sleep(max(0.0, _PACE - (perf_counter() - begun)))
        _wait(query, written, seen)
    return [seen[number] - written[number] for number in written if number not in first]


@contextmanager
def _reading(changes: DataFrame, seen: dict[int, float], checkpoint: Path) -> Iterator[StreamingQuery]:
    def arrived(batch: DataFrame, _: int) -> None:
        numbers = [row["id"] for row in batch.select("id").collect()]
        seen.update(dict.fromkeys(numbers, perf_counter()))

    query = changes.writeStream.foreachBatch(arrived).option("checkpointLocation", str(checkpoint)).start()
    try:
        yield query
    finally:
        query.stop()


def _wait(query: StreamingQuery, written: dict[int, float], seen: dict[int, float]) -> None:
    while written.keys() - seen.keys():
        query.awaitTermination(1)  # raises what ended it


def _drained(way: Changing, rows: pa.Table, checkpoint: Path) -> float:
    here = way.here()
    way.write(rows)

    def read() -> None:
        sink = way.since(here).writeStream.format("noop").option("checkpointLocation", str(checkpoint))
        sink.trigger(availableNow=True).start().awaitTermination()

    return quiet_seconds(read)
