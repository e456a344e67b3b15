"""One large partitioned table: ours beside Delta's own statements in Spark, over the same rows, in one run."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from benchmarks.measuring.page import Section, Table
from benchmarks.measuring.scale import Scale
from benchmarks.measuring.timing import quiet_seconds
from lakewarden import Column
from lakewarden.lakehouse import Lakehouse
from lakewarden.report import ScopeReport
from lakewarden.sql.results import Rows

COLUMNS = (
    Column("id", "BIGINT", nullable=False),
    Column("day", "INT", nullable=False),
    Column("kind", "TEXT"),
    Column("amount", "DOUBLE"),
    Column("note", "TEXT"),
)
KEYED, PLAIN = "bench.keyed", "bench.plain"
_KINDS = np.array(["login", "order", "payment", "refund", "logout", "search", "view"])
_CHUNK = 1_000_000
_CHANGED = 100
"""One row of so many is changed by the upsert."""


@dataclass(frozen=True)
class Measured:
    """Seconds of one operation, ours and theirs; and what the acknowledgement alone took, where it is apart."""

    name: str
    ours: float
    theirs: float
    acknowledged: float | None = None

    @property
    def row(self) -> tuple[str, ...]:
        apart = "" if self.acknowledged is None else f" (acknowledged after {self.acknowledged:.2f} s)"
        return self.name, f"{self.ours:.2f} s{apart}", f"{self.theirs:.2f} s", f"{self.theirs / max(self.ours, 1e-9):.2f}"


def run(scale: Scale, place: Path, spark: SparkSession) -> Section:
    rows, partitions = scale.large
    section = Section("large", scale.name)
    source = place / "source"
    make_source(source, rows, partitions)
    with Lakehouse.open(str(place / "ours"), spark=lambda: spark) as lake:
        both = _Both(lake, spark, place / "spark", source, rows, partitions)
        measured = both.measured()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    section.tables.append(
        Table(
            f"{rows:,} rows in {partitions:,} partitions by an INT column; ours beside Delta's own statements in a warm Spark"
            f" ({spark.sparkContext.master}), in one run. The driver's Python took at most {peak:,.0f} MiB. Target: none slower"
            " than 1.2 times, upsert and look-up at least twice as fast.",
            ("operation", "ours", "Spark's statement", "theirs / ours"),
            [one.row for one in measured],
        )
    )
    return section


def make_source(place: Path, rows: int, partitions: int) -> None:
    """Parquet files of the rows, spread over all partitions."""
    place.mkdir(parents=True)
    for number, chunk in enumerate(chunks(rows, partitions)):
        pq.write_table(chunk, place / f"part-{number:04}.parquet")


def chunks(rows: int, partitions: int) -> Iterator[pa.Table]:
    for first in range(0, rows, _CHUNK):
        yield of_ids(np.arange(first, min(first + _CHUNK, rows)), partitions)


def of_ids(ids: np.ndarray[tuple[int], np.dtype[np.int64]], partitions: int, more: float = 0.0) -> pa.Table:
    """The rows with these ids; `more` is added to their amounts."""
    notes = pa.array(ids).cast(pa.string())
    return pa.table(
        {
            "id": pa.array(ids),
            "day": pa.array((ids % partitions).astype(np.int32)),
            "kind": pa.array(_KINDS[ids % len(_KINDS)]),
            "amount": pa.array(ids * 0.25 + more),
            "note": notes,
        }
    )


class _Both:
    """The operations, one after the other, on our tables and on Spark's."""

    def __init__(self, lake: Lakehouse, spark: SparkSession, place: Path, source: Path, rows: int, partitions: int) -> None:
        self._lake = lake
        self._spark = spark
        self._source = source
        self._rows = rows
        self._partitions = partitions
        self._theirs = {name: f"delta.`{place / name}`" for name in ("keyed", "plain")}
        self._place = place

    def measured(self) -> list[Measured]:
        lake, spark, keyed = self._lake, self._spark, self._theirs["keyed"]
        lake.create_namespace("bench")
        lake.create_table(PLAIN, columns=COLUMNS, partition_by=["day"])
        table = lake.create_table(KEYED, columns=COLUMNS, primary_key=["id"], partition_by=["day"])
        spark.range(1).write.format("delta").save(str(self._place / "first"))  # what a session's first statement loads
        spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
        found = [self._beside("load", lambda: _loaded(lake, self._source, self._rows), lambda: self._save("plain"))]
        table.direct.overwrite(chunks(self._rows, self._partitions))
        self._save("keyed")
        found.append(self._upsert())
        day, plain = self._partitions // 2, self._theirs["plain"]
        change = f"SET amount = amount + 1 WHERE day = {day} AND kind = 'order'"
        found.append(
            self._beside(
                "update of a partition",
                lambda: lake.sql(f"UPDATE {PLAIN} {change}"),
                lambda: spark.sql(f"UPDATE {plain} {change}"),
            )
        )
        found.append(self._beside("optimize", lambda: _done(lake.optimize(KEYED)), lambda: spark.sql(f"OPTIMIZE {keyed}")))
        look = f"WHERE day = {7 % self._partitions} AND id = 7"
        found.append(self._query("point look-up", " ".join(("SELECT * FROM {}", look))))
        found.append(self._query("aggregate", "SELECT kind, count(*), sum(amount) FROM {} GROUP BY kind"))
        found.append(self._query("time travel", "SELECT count(*), sum(amount) FROM {} VERSION AS OF {version}"))
        found.append(
            self._beside(
                "vacuum",
                lambda: _done(lake.vacuum(KEYED, retain_hours=0, force=True, dry_run=False)),
                lambda: spark.sql(f"VACUUM {keyed} RETAIN 0 HOURS"),
            )
        )
        return found

    def _beside(self, name: str, ours: Callable[[], object], theirs: Callable[[], object]) -> Measured:
        return Measured(name, quiet_seconds(ours), quiet_seconds(theirs))

    def _save(self, name: str) -> None:
        data = self._spark.read.parquet(str(self._source))
        data.write.format("delta").partitionBy("day").save(str(self._place / name))

    def _upsert(self) -> Measured:
        ids = np.arange(0, self._rows, _CHANGED)
        changed = of_ids(ids, self._partitions, more=1.0)
        pq.write_table(changed, self._place.parent / "changed.parquet")
        acknowledged = quiet_seconds(lambda: self._lake.table(KEYED).write(changed))
        flushed = quiet_seconds(lambda: _done(self._lake.flush(KEYED)))
        self._spark.read.parquet(str(self._place.parent / "changed.parquet")).createOrReplaceTempView("changed")
        merge = f"MERGE INTO {self._theirs['keyed']} t USING changed s ON t.id = s.id AND t.day = s.day"
        theirs = quiet_seconds(lambda: self._spark.sql(f"{merge} WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"))
        return Measured("keyed upsert of 1 %", acknowledged + flushed, theirs, acknowledged)

    def _query(self, name: str, text: str) -> Measured:
        ours, theirs = text.format(KEYED, version=1), text.format(self._theirs["keyed"], version=0)

        def mine() -> None:
            (rows,) = self._lake.sql(ours, freshness="eventual")
            assert isinstance(rows, Rows)
            assert rows.to_pylist()

        return self._beside(name, mine, lambda: self._spark.sql(theirs).collect())


def _loaded(lake: Lakehouse, source: Path, rows: int) -> None:
    report = lake.load(PLAIN, str(source))
    assert report.rows == rows, f"{report.rows} rows of {rows}"


def _done(reports: list[ScopeReport]) -> None:
    faults = [report.fault for report in reports if report.fault]
    assert not faults, faults[0]
