"""Reads, writes and streams many scopes from Spark, beside one Delta table with the same rows and a union of Delta reads."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from pathlib import Path
from statistics import median

from pyspark.sql import DataFrame, SparkSession

from benchmarks.measuring.family import Cost, cost
from benchmarks.measuring.page import Section, Table
from benchmarks.measuring.scale import Scale
from benchmarks.spark.latency import streams
from benchmarks.spark.rows import COLUMNS, made
from lakewarden.base.scope import Scope, TableName
from lakewarden.client import Lakehouse

TABLE, WRITTEN = "bench.events", "bench.written"
_AT_ONCE = 200
"""Users of a write that makes the data."""
_PENDING = 100
"""One row of so many is pending where hot and cold rows are merged."""
_UNITED = 50
"""Delta tables of the union, whose cost is taken as many times as there are scopes for so many."""
_HEAD = ("", "seconds", "processor", "times Delta's seconds", "times Delta's processor")


def run(scale: Scale, place: Path, spark: SparkSession) -> Section:
    section = Section("spark", scale.name)
    with Lakehouse.open(str(place / "warehouse"), spark=lambda: spark) as lake:
        lake.spark()
        _make(lake, *scale.spark)
        section.tables.append(_reads(lake, scale, place, spark))
        section.tables.append(_writes(scale, spark))
        section.tables.append(streams(lake, scale, place, spark))
    return section


def _make(lake: Lakehouse, scopes: int, rows: int) -> None:
    lake.create_namespace("bench")
    for name in (TABLE, WRITTEN):
        lake.create_table(name, type="USER", columns=COLUMNS, primary_key=["id"])
    for start in range(0, scopes, _AT_ONCE):
        lake.table(TABLE).write(made(range(start, min(start + _AT_ONCE, scopes)), range(rows)), user_column="who")
    lake.flush(TABLE)


def _reads(lake: Lakehouse, scale: Scale, place: Path, spark: SparkSession) -> Table:
    scopes, rows = scale.spark
    delta = str(place / "delta")
    _ours(spark, "eventual").write.format("delta").save(delta)
    united = min(scopes, _UNITED)
    ways: dict[str, Callable[[], DataFrame]] = {
        "one Delta table": lambda: spark.read.format("delta").load(delta),
        "ours, cold": partial(_ours, spark, "eventual"),
        "ours, hot and cold merged": partial(_ours, spark, "strong"),
        f"a union of {united} Delta tables": partial(_union, lake, spark, united),
    }
    found: dict[str, list[Cost]] = {name: [] for name in ways}
    lake.table(TABLE).write(made(range(scopes), range(max(1, rows // _PENDING))), user_column="who")
    for _ in range(scale.rounds):
        for name, frame in ways.items():
            found[name].append(cost(lambda frame=frame: _drain(frame())))  # type: ignore[misc]
    base = found["one Delta table"]
    lines = [_line(name, costs, base, scopes / united if "union" in name else 1) for name, costs in found.items()]
    said = (
        f"Reading all columns of {scopes:,} scopes with {rows:,} rows each into a sink that keeps nothing;"
        f" the union taken {scopes / united:g} times."
    )
    return Table(said, _HEAD, lines)


def _ours(spark: SparkSession, freshness: str) -> DataFrame:
    return spark.read.format("lakewarden").option("table", TABLE).option("freshness", freshness).load()


def _union(lake: Lakehouse, spark: SparkSession, scopes: int) -> DataFrame:
    catalog, name = lake.warehouse.catalog.read(), TableName.parse(TABLE)
    places = [lake.warehouse.target(catalog, Scope(name, f"user{each:06d}")).uri for each in range(scopes)]
    return reduce(DataFrame.unionByName, (spark.read.format("delta").load(place) for place in places))


def _drain(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _writes(scale: Scale, spark: SparkSession) -> Table:
    rows, users = scale.bulk_rows, scale.bulk_users
    frame = spark.range(0, rows, 1, 4).selectExpr(
        "id", "'order' AS kind", "id / 7 AS amount", "concat('note ', id % 997) AS note", f"concat('user', id % {users}) AS who"
    )
    writer = frame.write.format("lakewarden").option("table", WRITTEN).option("user_column", "who").mode("append")
    costs = [cost(writer.save) for _ in range(scale.rounds)]
    taken = median(each.seconds for each in costs)
    line = (f"{taken:.2f} s", f"{median(each.processor for each in costs):.2f} s", f"{rows / taken:,.0f}")
    said = f"Writing {rows:,} rows of {users:,} users from a DataFrame, as one call."
    return Table(said, ("seconds", "processor", "rows/s"), [line])


def _line(name: str, costs: list[Cost], base: list[Cost], times: float) -> tuple[str, ...]:
    seconds, work = (times * median(each) for each in zip(*((one.seconds, one.processor) for one in costs), strict=True))
    their_seconds, their_work = (median(each) for each in zip(*((one.seconds, one.processor) for one in base), strict=True))
    return name, f"{seconds:.2f} s", f"{work:.2f} s", f"{seconds / their_seconds:.1f}", f"{work / max(their_work, 0.01):.1f}"
