"""Measures the flush of many small scopes, next to what a user of Spark would do instead, and next to the floor."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from benchmarks import data
from benchmarks.flush import floor
from benchmarks.measuring.page import Section, Table
from benchmarks.measuring.scale import Scale
from benchmarks.measuring.timing import quiet_seconds, rounds_within, spread, times
from lakewarden.client import Lakehouse

_WARM_UP = 2
"""Statements before the first measured one: Spark compiles its plans once."""

_ENOUGH = 180.0
"""Seconds of rounds."""


@dataclass(frozen=True)
class _Rows:
    """The same rows for everyone: what is there, and what comes."""

    existing: pa.Table
    new: pa.Table
    merged: pa.Table
    file: Path
    """The new rows as one Parquet file, where Spark reads them: as ours reads them from the log."""
    users: list[str]


def run(scale: Scale, place: Path, spark: SparkSession) -> Section:
    """Measures in alternation, so that a busy moment of the machine affects all of them."""
    section = Section("flush", scale.name)
    given = _rows(scale, place)
    one_table = place / "one-table"
    deltalake.write_deltalake(str(one_table), given.existing, partition_by=["user"])
    single = _single_merges(given, scale, place / "single", spark)
    ours: list[float] = []
    plain: list[float] = []
    plain_merged: list[float] = []
    one_merge: list[float] = []
    for number in rounds_within(scale.rounds, _ENOUGH):
        ours.append(_ours(given, place / f"round-{number}", spark))
        with floor.all_cores(spark):
            plain.append(floor.seconds_of(given.file, place / "floor", spark))
            plain_merged.append(floor.seconds_of(place / "merged.parquet", place / "floor", spark))
            one_merge.append(_one_merge(given, one_table, place / "one-table-copy", spark))
    fast, all_singles = median(ours), median(single) * scale.scopes
    section.tables.append(
        Table(
            f"{scale.scopes:,} scopes, {scale.new} rows onto {scale.existing:,} existing ones each, half of them updates. "
            "Ours is the whole `Lakehouse.flush` of pending rows: log read, one commit per scope, manifest, sync to disk, log "
            f"settled; Spark is warm. The median of {len(ours)} rounds in alternation, with the extremes.",
            ("what", "time", "times ours", "target"),
            (
                ("ours", spread(ours), "1.0", ""),
                (
                    f"one Spark `MERGE INTO` per scope: median of {scale.sample}, times {scale.scopes:,} (extrapolated)",
                    f"{median(single):.2f} s each, {all_singles:,.0f} s",
                    times(all_singles, fast),
                    "at least 40",
                ),
                (
                    "one Delta table partitioned by user, one `MERGE INTO`",
                    spread(one_merge),
                    times(median(one_merge), fast),
                    "more than 1",
                ),
                (
                    f"the floor: Spark writes the same {given.new.num_rows:,} new rows as Parquet partitioned by user",
                    spread(plain),
                    times(median(plain), fast),
                    "at least 2.9 (ours at most 0.35 of it)",
                ),
                (
                    f"the same floor with the {given.merged.num_rows:,} rows that are there after the merge, which ours writes",
                    spread(plain_merged),
                    times(median(plain_merged), fast),
                    "",
                ),
            ),
        )
    )
    return section


def _rows(scale: Scale, place: Path) -> _Rows:
    users = data.users(scale.scopes)
    existing = data.rows(users, 0, scale.existing)
    kept = scale.existing - scale.new // 2
    new = data.rows(users, kept, scale.new)
    merged = pa.concat_tables([existing.filter(pc.field("id") < kept), new])
    place.mkdir(parents=True, exist_ok=True)
    pq.write_table(new, place / "new.parquet")
    pq.write_table(merged, place / "merged.parquet")
    return _Rows(existing, new, merged, place / "new.parquet", users)


def _ours(given: _Rows, at: Path, spark: SparkSession) -> float:
    """Of a warehouse of its own, never a copy: what is known of a scope does not count for a copy of it."""
    with Lakehouse.open(str(at), spark=lambda: spark) as lake:
        events = data.create(lake)
        events.write(given.existing, user_column="user")
        lake.flush(data.TABLE)
        events.write(given.new, user_column="user")
        taken = quiet_seconds(_flush, lake, len(given.users))
        found = sum(events.read(user=user, freshness="eventual").num_rows for user in given.users[:3])
        assert found == 3 * given.merged.num_rows // len(given.users), "the flush did not bring the rows"
    shutil.rmtree(at)
    return taken


def _flush(lake: Lakehouse, scopes: int) -> None:
    done = [report for report in lake.flush(data.TABLE) if report.outcome == "done"]
    assert len(done) == scopes, f"{len(done)} of {scopes} scopes were flushed"


def _one_merge(given: _Rows, table: Path, at: Path, spark: SparkSession) -> float:
    shutil.copytree(table, at)
    spark.read.parquet(str(given.file)).createOrReplaceTempView("new_rows")
    on = "t.user = s.user AND t.id = s.id"
    taken = quiet_seconds(_merge, spark, at, "new_rows", on)
    shutil.rmtree(at)
    return taken


def _single_merges(given: _Rows, scale: Scale, at: Path, spark: SparkSession) -> list[float]:
    """One statement after the other, each on a table of its own; the source is already in the session."""
    first = _WARM_UP if scale.rounds > 1 else 0
    return [_single_merge(given, user, at / user, spark) for user in given.users[: first + scale.sample]][first:]


def _single_merge(given: _Rows, user: str, at: Path, spark: SparkSession) -> float:
    deltalake.write_deltalake(str(at), _of(user, given.existing))
    spark.createDataFrame(_of(user, given.new)).createOrReplaceTempView("own_rows")
    return quiet_seconds(_merge, spark, at, "own_rows", "t.id = s.id")


def _of(user: str, rows: pa.Table) -> pa.Table:
    return rows.filter(pc.field("user") == user).drop_columns(["user"])


def _merge(spark: SparkSession, table: Path, source: str, on: str) -> None:
    spark.sql(
        f"MERGE INTO delta.`{table}` t USING {source} s ON {on} WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    ).collect()
