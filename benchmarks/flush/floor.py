"""The floor of a flush: Spark writes the same new rows as Parquet, partitioned by user, and does nothing else.

A benchmark of its own, so that it ends within minutes on a busy machine too, where the processor time still says something.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import mean, median

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from benchmarks import data
from benchmarks.measuring.family import seconds_and_processor
from benchmarks.measuring.page import Section, Table
from benchmarks.measuring.scale import Scale
from benchmarks.measuring.timing import quiet_seconds, rounds_within, spread
from benchmarks.side import NARROW, WIDE, Shape
from lakewarden.client import Lakehouse

TARGET = "at most 0.35"

_ENOUGH = 240.0
"""Seconds of rounds with one shape of rows."""


@contextmanager
def all_cores(spark: SparkSession) -> Iterator[None]:
    """What the others need to be at their best: Spark would otherwise coalesce so few bytes into one task, on one core."""
    better = {
        "spark.sql.adaptive.coalescePartitions.enabled": "false",
        "spark.sql.shuffle.partitions": str(4 * spark.sparkContext.defaultParallelism),
    }
    usual = {name: spark.conf.get(name) for name in better}
    for name, value in better.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, before in usual.items():
            if before is not None:
                spark.conf.set(name, before)


def seconds_of(rows: Path, at: Path, spark: SparkSession) -> float:
    """Of writing one Parquet file's rows into `at`, by their column `user`."""
    return quiet_seconds(_write, rows, at, spark)


def _write(rows: Path, at: Path, spark: SparkSession) -> None:
    spark.read.parquet(str(rows)).repartition("user").write.mode("overwrite").partitionBy("user").parquet(str(at))


def run(scale: Scale, place: Path, spark: SparkSession) -> Section:
    section = Section("floor", scale.name)
    section.tables.append(_by_shape(scale, place, spark))
    return section


def of_new_rows(rows: pa.Table, place: Path, spark: SparkSession) -> float:
    """Of rows that are in no file yet."""
    place.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, place / "rows.parquet")
    with all_cores(spark):
        return seconds_of(place / "rows.parquet", place / "floor", spark)


def _by_shape(scale: Scale, place: Path, spark: SparkSession) -> Table:
    """Ours against the floor, for narrow rows and for wide ones."""
    return Table(
        f"The flush of {scale.scopes:,} scopes against the floor, few columns and many, each row in place of another; the"
        f" median of up to {_rounds(scale)} rounds in alternation, from checkpoint to checkpoint, with the extremes. Processor"
        " time is that of all processes together (Python, Spark's JVM, its workers), on average.",
        (
            "new rows of a scope",
            "ours",
            "the floor: Spark writes them as Parquet by user",
            "ours is, times",
            "ours, processor time of a scope",
            "the floor's",
            "ours is, times",
            "target",
        ),
        [_line(shape, scale, place / f"columns-{len(shape.columns)}", spark) for shape in (NARROW, WIDE)],
    )


def _line(shape: Shape, scale: Scale, place: Path, spark: SparkSession) -> tuple[str, ...]:
    users = data.users(scale.scopes)
    ours, floor = [], []
    with Lakehouse.open(str(place / "prepared"), spark=lambda: spark) as lake:
        lake.create_namespace("bench")
        table = lake.create_table(data.TABLE, type="USER", columns=shape.columns, primary_key=shape.primary_key)
        table.write(shape.rows(users, 0, shape.existing, 0), user_column="user")
        lake.flush(data.TABLE)
        for turn in rounds_within(_rounds(scale), _ENOUGH):
            new = shape.rows(users, shape.existing - shape.replaced, shape.replaced, turn + 1)
            pq.write_table(new, place / "rows.parquet")
            table.write(new, user_column="user")
            ours.append(seconds_and_processor(lake.flush, data.TABLE))
            with all_cores(spark):
                floor.append(seconds_and_processor(_write, place / "rows.parquet", place / "floor", spark))
    (our_seconds, our_time), (seconds, processor) = (zip(*each, strict=True) for each in (ours, floor))
    return (
        f"{shape.replaced} of {len(shape.columns)} columns onto {shape.existing:,}",
        spread(our_seconds),
        spread(seconds),
        f"{median(our_seconds) / median(seconds):.2f}",
        *(f"{1000 * mean(each) / scale.scopes:.1f} ms" for each in (our_time, processor)),
        f"{mean(our_time) / mean(processor):.2f}",
        TARGET,
    )


def _rounds(scale: Scale) -> int:
    """From checkpoint to checkpoint: one in ten flushes of a scope writes one."""
    return 10 if scale.rounds > 1 else scale.rounds
