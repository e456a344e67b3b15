"""One large partitioned table: ours beside Delta's own statements in Spark, on the same files, in one run."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyspark.sql import SparkSession

from benchmarks.measuring.family import Cost, cost
from benchmarks.measuring.page import Section, Table
from benchmarks.measuring.scale import TINY, Scale
from benchmarks.measuring.timing import rounds_within, seconds
from lakewarden import Column
from lakewarden.catalog.report import ScopeReport
from lakewarden.client import Lakehouse
from lakewarden.sql.results import ResultRows
from lakewarden.storage.location import local_path

COLUMNS = (
    Column("id", "BIGINT", nullable=False),
    Column("day", "INT", nullable=False),
    Column("kind", "TEXT"),
    Column("amount", "DOUBLE"),
    Column("note", "TEXT"),
)
_NAMES = [column.name for column in COLUMNS]
_COLUMNS = ", ".join(_NAMES)
_MERGE = " ".join(
    (
        "MERGE INTO {} t USING changed s ON t.id = s.id AND t.day = s.day WHEN MATCHED THEN UPDATE SET",
        ", ".join(f"{name} = s.{name}" for name in _NAMES),
        "WHEN NOT MATCHED THEN INSERT",
        f"({_COLUMNS}) VALUES",
        f"({', '.join(f's.{name}' for name in _NAMES)})",
    )
)
KEYED, PLAIN = "bench.keyed", "bench.plain"
_KINDS = np.array(["login", "order", "payment", "refund", "logout", "search", "view"])
_QUERIES = 5
"""Rounds of a query, each for another row where it looks one up."""
_CHUNK = 1_000_000
_CHANGED = 100
"""One row of so many is changed by the upsert."""
_FLUSHES = 4
"""Flushes of new rows, each a file a partition, before the table is optimized."""
_ENOUGH = 120.0
"""Seconds after which no further round of an operation begins."""

Ids = TypeVar("Ids", int, NDArray[np.int64])
Work = Callable[[int], object]
"""Does the operation in a round."""


@dataclass
class Measured:
    """What the rounds of one operation cost, ours and theirs in turn."""

    name: str
    ours: list[Cost] = field(default_factory=list)
    theirs: list[Cost] = field(default_factory=list)

    @property
    def row(self) -> tuple[str, ...]:
        ours, theirs = (median(each.seconds for each in costs) for costs in (self.ours, self.theirs))
        our_work, their_work = (median(each.processor for each in costs) for costs in (self.ours, self.theirs))
        peaks = max(each.python_mib for each in self.ours), max(each.jvm_mib for each in self.theirs)
        return (
            *(self.name, str(len(self.ours))),
            *(f"{ours:.2f} s", f"{theirs:.2f} s", f"{theirs / ours:.2f}"),
            *(f"{our_work:.2f} s", f"{their_work:.2f} s", f"{their_work / max(our_work, 0.01):.2f}"),
            *(f"{peak:,.0f} MiB" for peak in peaks),
        )


def run(scale: Scale, place: Path, spark: SparkSession) -> Section:
    rows, partitions = scale.large
    section = Section("large", scale.name)
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    if scale is not TINY:
        measured_on(TINY, place / "warm", spark)  # what first statements load
    measured = measured_on(scale, place / "measured", spark)
    section.tables.append(
        Table(
            f"{rows:,} rows in {partitions:,} partitions by an INT column; ours beside Delta's own statements in a warm Spark"
            f" ({spark.sparkContext.master}), in one run, in turn, medians of the rounds. Before each operation Spark's table is"
            " a copy of ours, so both have the same files. Processor time is that of all processes. The highest memory is that of"
            " the Python processes for ours, and of the JVM for Spark's. Target: none slower than 1.2 times, upsert and look-up"
            " at least twice as fast. The upsert is in Delta when it ends.",
            (
                *("operation", "rounds", "ours", "Spark's statement", "theirs / ours"),
                *("processor, ours", "Spark's", "theirs / ours", "memory, ours", "Spark's"),
            ),
            [one.row for one in measured],
        )
    )
    return section


def measured_on(scale: Scale, place: Path, spark: SparkSession) -> list[Measured]:
    rows, partitions = scale.large
    source = place / "source"
    make_source(source, rows, partitions)
    with Lakehouse.open(str(place / "ours"), spark=lambda: spark) as lake:
        return _Both(lake, spark, place / "spark", source, scale).measured()


def make_source(place: Path, rows: int, partitions: int) -> None:
    """Parquet files of the rows, spread over all partitions."""
    place.mkdir(parents=True)
    for number, chunk in enumerate(chunks(rows, partitions)):
        pq.write_table(chunk, place / f"part-{number:04}.parquet")


def chunks(rows: int, partitions: int) -> Iterator[pa.Table]:
    for first in range(0, rows, _CHUNK):
        yield of_ids(np.arange(first, min(first + _CHUNK, rows)), partitions)


def of_ids(ids: NDArray[np.int64], partitions: int, more: float = 0.0) -> pa.Table:
    """The rows with these ids; `more` is added to their amounts."""
    notes = pa.array(ids).cast(pa.string())
    return pa.table(
        {
            "id": pa.array(ids),
            "day": pa.array(day_of(ids, partitions).astype(np.int32)),
            "kind": pa.array(_KINDS[ids % len(_KINDS)]),
            "amount": pa.array(ids * 0.25 + more),
            "note": notes,
        }
    )


def day_of(ids: Ids, partitions: int) -> Ids:
    """Ids that are a hundred apart are of all days."""
    return ids // len(_KINDS) % partitions


class _Both:
    """The operations, one after the other, on our tables and on Spark's."""

    def __init__(self, lake: Lakehouse, spark: SparkSession, place: Path, source: Path, scale: Scale) -> None:
        self._lake = lake
        self._spark = spark
        self._place = place
        self._source = source
        self._scale = scale
        self._rows, self._partitions = scale.large
        self._new = max(self._rows // _CHANGED, self._partitions * len(_KINDS))
        self._copies = count()
        self._theirs = ""
        """Spark's table, as it is named in a statement."""

    def measured(self) -> list[Measured]:
        lake = self._lake
        lake.create_namespace("bench")
        table = lake.create_table(KEYED, columns=COLUMNS, primary_key=["id"], partition_by=["day"])
        lake.create_table(PLAIN, columns=COLUMNS, partition_by=["day"])
        found = [self._in_turn("load", lambda _: self._load(), lambda _: self._save(), rounds=1)]
        table.direct.overwrite(chunks(self._rows, self._partitions))
        found.append(self._upserts())
        found.append(self._updates())
        for number in range(_FLUSHES):
            first = self._rows + number * self._new
            table.write(of_ids(np.arange(first, first + self._new), self._partitions))
            _done(lake.flush(KEYED))
        found.append(self._maintained("optimize", lambda _: _done(lake.optimize(KEYED)), "OPTIMIZE {}"))
        self._copy(KEYED)
        found.append(self._query("point look-up", "SELECT {columns} FROM {} WHERE day = {day} AND id = {id}"))
        found.append(self._query("aggregate", "SELECT kind, count(*), sum(amount) FROM {} GROUP BY kind"))
        found.append(self._query("time travel", "SELECT count(*), sum(amount) FROM {} VERSION AS OF 1"))
        vacuumed = partial(lake.vacuum, KEYED, retain_hours=0, force=True, dry_run=False)
        found.append(self._maintained("vacuum", lambda _: _done(vacuumed()), "VACUUM {} RETAIN 0 HOURS"))
        return found

    def _in_turn(self, name: str, ours: Work, theirs: Work, *, rounds: int, before: Work = lambda _: None) -> Measured:
        """Each round begins with the other of the two."""
        found = Measured(name)
        for number in rounds_within(rounds, _ENOUGH):
            before(number)
            sides = [(found.ours, ours), (found.theirs, theirs)]
            for costs, work in sides if number % 2 == 0 else reversed(sides):
                costs.append(cost(work, number))
        return found

    def _load(self) -> None:
        report = self._lake.load(PLAIN, str(self._source))
        assert report.rows == self._rows, f"{report.rows} rows of {self._rows}"

    def _save(self) -> None:
        """Each partition's rows in one task, as one does who knows Spark: else each task writes a file of each partition."""
        data = self._spark.read.parquet(str(self._source)).repartition("day")
        data.write.format("delta").partitionBy("day").save(str(self._place / "loaded"))

    def _copy(self, name: str) -> None:
        """Spark's table becomes a copy of ours, which Spark has opened."""
        ours = local_path(self._lake.table(name).reader.target(None).uri)
        assert ours is not None
        copy = self._place / str(next(self._copies))
        shutil.copytree(ours, copy)
        shutil.rmtree(self._place / str(int(copy.name) - 2), ignore_errors=True)
        self._theirs = f"delta.`{copy}`"
        self._spark.table(self._theirs).limit(1).collect()

    def _changes(self, number: int) -> pa.Table:
        return of_ids(np.arange(number, self._rows, _CHANGED), self._partitions, more=1.0)

    def _upserts(self) -> Measured:
        lake, acknowledged = self._lake, []

        def before(number: int) -> None:
            self._copy(KEYED)
            pq.write_table(self._changes(number), self._place / f"changed-{number}.parquet")

        def ours(number: int) -> None:
            acknowledged.append(seconds(lake.table(KEYED).write, pq.read_table(self._place / f"changed-{number}.parquet")))
            _done(lake.flush(KEYED))

        def theirs(number: int) -> None:
            self._spark.read.parquet(str(self._place / f"changed-{number}.parquet")).createOrReplaceTempView("changed")
            self._spark.sql(_MERGE.format(self._theirs))

        found = self._in_turn("keyed upsert of 1 %", ours, theirs, rounds=self._scale.rounds, before=before)
        return replace(found, name=f"{found.name} (acknowledged after {median(acknowledged):.2f} s)")

    def _updates(self) -> Measured:
        def change(number: int) -> str:
            return f"SET amount = amount + 1 WHERE day = {(self._partitions // 2 + number) % self._partitions} AND kind = 'order'"

        return self._in_turn(
            "update of a partition",
            lambda number: self._lake.sql(f"UPDATE {PLAIN} {change(number)}"),
            lambda number: self._spark.sql(f"UPDATE {self._theirs} {change(number)}"),
            rounds=self._scale.rounds,
            before=lambda _: self._copy(PLAIN),
        )

    def _maintained(self, name: str, ours: Work, theirs: str) -> Measured:
        self._copy(KEYED)
        return self._in_turn(name, ours, lambda _: self._spark.sql(theirs.format(self._theirs)), rounds=1)

    def _query(self, name: str, text: str) -> Measured:
        """Compares the answers of both sides, too."""
        answers: dict[int, list[tuple[object, ...]]] = {}

        def check(number: int, rows: Iterable[tuple[object, ...]]) -> None:
            found = sorted(rows)
            assert found, "nothing was found"
            assert answers.setdefault(number, found) == found, f"the two sides differ: {answers[number]} and {found}"

        def of(table: str, number: int) -> str:
            wanted = (7 + 1001 * number) % self._rows
            return text.format(table, columns=_COLUMNS, id=wanted, day=day_of(wanted, self._partitions))

        def ours(number: int) -> None:
            (rows,) = self._lake.sql(of(KEYED, number), freshness="eventual")
            assert isinstance(rows, ResultRows)
            check(number, (tuple(row.values()) for row in rows.to_pylist()))

        def theirs(number: int) -> None:
            check(number, (tuple(row) for row in self._spark.sql(of(self._theirs, number)).collect()))

        return self._in_turn(name, ours, theirs, rounds=_QUERIES)


def _done(reports: list[ScopeReport]) -> None:
    faults = [report.fault for report in reports if report.fault]
    assert not faults, faults[0]
