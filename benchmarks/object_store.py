"""On a real MinIO: a flush of many scopes beside what Spark would do, and on one worker and on two."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, median

import deltalake
import pyarrow as pa
from pyspark.sql import SparkSession

from benchmarks import data
from benchmarks.flush.floor import all_cores
from benchmarks.flush.requests import environment
from benchmarks.measuring.machine import busy_cores
from benchmarks.measuring.page import Section, Table
from benchmarks.measuring.scale import Scale
from benchmarks.measuring.timing import seconds, spread, times
from lakewarden.base.connection import Location
from lakewarden.base.setting_sections import FlushSettings, SparkSettings
from lakewarden.base.settings import Settings
from lakewarden.client import Lakehouse
from lakewarden.spark.s3a import connect
from lakewarden.spark.session import start_session
from tests.fixtures.cluster import serve_cluster
from tests.fixtures.minio import MinioServer, serve_minio


def run(scale: Scale, place: Path) -> Section:
    section = Section("object_store", scale.name)
    with serve_minio() as server, environment(server):
        spark = start_session(SparkSettings(s3a=True))
        section.tables.extend([compared(scale, spark), large(scale, spark)])
        spark.stop()
        section.tables.append(_workers(scale, place, server))
    return section


def _own(first: int, count: int) -> pa.Table:
    return data.rows(["u"], first, count).drop_columns(["user"])


_TURNS = 2
"""Rounds at most, here where each takes minutes."""

# Beside Spark


def compared(scale: Scale, spark: SparkSession) -> Table:
    """All of them through one session, which reads and writes `s3a://`."""
    connect(spark, Location("s3://lake"), os.environ)
    rounds = min(scale.rounds, _TURNS)
    existing, new = _rows(scale)
    spark.createDataFrame(new).write.mode("overwrite").parquet("s3a://lake/new")
    ours, merged, plain = [], [], []
    for number in range(rounds):
        with _pending(f"s3://lake/ours-{number}", existing, new, spark) as lake:
            ours.append(seconds(_flush, lake, scale.scopes))
        table = f"lake/one-table-{number}"
        deltalake.write_deltalake(f"s3://{table}", existing, partition_by=["user"])
        with all_cores(spark):
            merged.append(seconds(_merge, spark, f"s3a://{table}"))
            plain.append(seconds(_parquet, spark, f"s3a://lake/floor-{number}"))
    fast = median(ours)
    return Table(
        f"{scale.scopes:,} scopes on MinIO, {scale.new} rows onto {scale.existing:,} existing ones each, half of them updates;"
        f" the median of {rounds} rounds in alternation, with the extremes.",
        ("what", "time", "times ours"),
        [
            ("ours, the whole `Lakehouse.flush`", spread(ours), "1.0"),
            ("one Delta table partitioned by user, one `MERGE INTO` over `s3a`", spread(merged), times(median(merged), fast)),
            ("the floor: Spark writes the new rows as Parquet partitioned by user", spread(plain), times(median(plain), fast)),
        ],
    )


def _rows(scale: Scale) -> tuple[pa.Table, pa.Table]:
    """What is there, and what comes."""
    users = data.users(scale.scopes)
    return data.rows(users, 0, scale.existing), data.rows(users, scale.existing - scale.new // 2, scale.new)


@contextmanager
def _pending(uri: str, existing: pa.Table, new: pa.Table, spark: SparkSession) -> Iterator[Lakehouse]:
    """A warehouse whose scopes hold the existing rows, and whose log holds the new ones."""
    with Lakehouse.open(uri, settings=Settings(flush=FlushSettings(in_process_below=1)), spark=lambda: spark) as lake:
        events = data.create(lake)
        events.write(existing, user_column="user")
        lake.flush(data.TABLE)
        events.write(new, user_column="user")
        yield lake


def _flush(lake: Lakehouse, scopes: int) -> None:
    done = [report for report in lake.flush(data.TABLE) if report.outcome == "done"]
    assert len(done) == scopes, f"{len(done)} of {scopes} scopes were flushed"


def _merge(spark: SparkSession, table: str) -> None:
    spark.read.parquet("s3a://lake/new").createOrReplaceTempView("new_rows")
    spark.sql(
        f"MERGE INTO delta.`{table}` t USING new_rows s ON t.user = s.user AND t.id = s.id"
        " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    ).collect()


def _parquet(spark: SparkSession, at: str) -> None:
    rows = spark.read.parquet("s3a://lake/new").repartition("user")
    rows.write.mode("overwrite").partitionBy("user").parquet(at)


# A scope that is too large for one task


def large(scale: Scale, spark: SparkSession) -> Table:
    """The DataFrame path as it goes through our own client and over `s3a://`, and Spark reading and writing `s3a://` alone."""
    connect(spark, Location("s3://lake"), os.environ)
    rounds = min(scale.rounds, _TURNS)
    rows, pending = scale.bulk_rows, scale.bulk_rows // 10
    uri, ways = "s3://lake/large", {"our own client": False, "`s3a` (`spark.s3a`)": True}
    _write_large(uri, spark, 0, rows, over_s3a=False)
    found: dict[str, list[float]] = {way: [] for way in ways}
    alone = []
    for number in range(rounds):
        for way, over_s3a in ways.items():
            found[way].append(_write_large(uri, spark, rows // 2 + number, pending, over_s3a=over_s3a))
        spark.createDataFrame(_own(rows // 2 + number, pending)).write.mode("overwrite").parquet("s3a://lake/large-new")
        alone.append(seconds(_rewrite, spark, f"{uri}/data/bench/events/u", f"s3a://lake/large-alone-{number}"))
    listed = [(f"ours, reading and writing through {way}", times_) for way, times_ in found.items()]
    listed.append(("Spark alone: the same join, read and written over `s3a` from new rows in Parquet, no commit", alone))
    return Table(
        f"One scope of {rows:,} rows on MinIO, {pending:,} updates to them, as Spark DataFrames; the median of {rounds}"
        " rounds in alternation, with the extremes.",
        ("what", "time", "rows a second"),
        [(what, spread(taken), f"{rows / median(taken):,.0f}") for what, taken in listed],
    )


def _write_large(uri: str, spark: SparkSession, first: int, count: int, *, over_s3a: bool) -> float:
    settings = Settings(flush=FlushSettings(large_scope_bytes=1), spark=SparkSettings(s3a=over_s3a))
    with Lakehouse.open(uri, settings=settings, spark=lambda: spark) as lake:
        events = lake.table(data.TABLE) if first else data.create(lake)
        events.write(data.rows(["u"], first, count), user_column="user")
        return seconds(_flush, lake, 1)


def _rewrite(spark: SparkSession, table: str, at: str) -> None:
    files = [f"s3a{file.removeprefix('s3')}" for file in deltalake.DeltaTable(table).file_uris()]
    old, new = spark.read.parquet(*files).drop("_seq"), spark.read.parquet("s3a://lake/large-new")
    old.join(new, ["id"], "left_anti").select(*new.columns).unionByName(new).coalesce(1).write.parquet(at)


# On one worker and on two


@dataclass
class _OnWorkers:
    """Seconds of each round, and how many of the machine's cores worked meanwhile, the store's and the driver's work included."""

    seconds: list[float] = field(default_factory=list)
    busy: list[float] = field(default_factory=list)


def _workers(scale: Scale, place: Path, server: MinioServer) -> Table:
    """The same flush on a standalone cluster of two workers of one core, in turns on one of them and on both."""
    existing, new = _rows(scale)
    found = {1: _OnWorkers(), 2: _OnWorkers()}
    place.mkdir(parents=True, exist_ok=True)
    with serve_cluster(place, server.environment) as cluster:
        for number in range(_TURNS):
            for workers, measured in found.items():
                conf = {**cluster.conf, "spark.cores.max": str(workers)}
                spark = start_session(SparkSettings(master=cluster.master, conf=conf))
                with _pending(f"s3://lake/on-{workers}-{number}", existing, new, spark) as lake, busy_cores() as busy:
                    measured.seconds.append(seconds(_flush, lake, scale.scopes))
                measured.busy.append(busy())
                spark.stop()
    one = median(found[1].seconds)
    return Table(
        f"The same flush on a Spark standalone cluster of two workers of one core each, on one of them and on both; {_TURNS}"
        " turns each. MinIO and the driver take their part of the same two cores, so the cores that were busy in all bound what a"
        " second worker can bring. Target: at least 1.6 times as fast, or the reason.",
        ("workers", "time", "times as fast", "cores busy in all"),
        [
            (str(workers), spread(measured.seconds), times(one, median(measured.seconds)), f"{mean(measured.busy):.2f}")
            for workers, measured in found.items()
        ],
    )
