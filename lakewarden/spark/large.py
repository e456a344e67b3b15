"""The flush of a scope that is too large for one task: read, merged and written by Spark, committed like any other.

Spark reads and writes through our own functions (`mapInArrow`), so file names, field ids, footers and statistics are those of
every other flush. On request Spark reads and writes by itself, over `s3a://` (docs/decisions/0015).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # its name everywhere
from pyspark.sql.pandas.types import from_arrow_schema

from lakewarden.base.clock import random_id
from lakewarden.catalog.report import ScopeReport
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.apply import WrittenFiles
from lakewarden.delta.parquet import files as data_files
from lakewarden.delta.parquet.files import (
    CHANGE_TYPE,
    ChangeFile,
    DataFile,
    NewFile,
    batch_folder,
    batch_name,
    write_changes,
    write_files,
)
from lakewarden.delta.parquet.reading import open_file
from lakewarden.delta.parquet.schema import SEQ, read_schema, rows_schema
from lakewarden.delta.reading.bounds import may_hold
from lakewarden.errors import Conflict
from lakewarden.log.drain import LogScope, drain
from lakewarden.log.log_reader import LogReader
from lakewarden.log.position import NOTHING
from lakewarden.log.record import DELETE, OP
from lakewarden.log.view import PendingRows
from lakewarden.maintenance.flush.run import done, hot_scope, open_cold
from lakewarden.maintenance.flush_task import FlushTask
from lakewarden.spark import s3a, s3a_files
from lakewarden.storage.disk import sync
from lakewarden.storage.objects import Missing
from lakewarden.storage.open import open_store
from lakewarden.storage.steps import Steps, alone
from lakewarden.tables.fanout import guarded
from lakewarden.tables.warehouse import state_store

Written = TypeVar("Written", NewFile, ChangeFile)

# What a large flush says to readers of Delta's change data feed: how its rows change, as a DataFrame, and as change files.


def changed_rows(hot: DataFrame, old: DataFrame, key: Sequence[str]) -> DataFrame:
    """How the rows of files that are replaced change, and which are new.

    Args:
        hot: the newest pending row of each key, with `_op`.
        old: the rows of the files.
    """
    there = old.select(*key).distinct()
    upserts = hot.filter(F.col(OP) != DELETE).drop(OP)
    word = F.when(F.col(OP) == DELETE, data_files.DELETED).otherwise(data_files.PREIMAGE)
    before = old.join(hot.select(*key, word.alias(CHANGE_TYPE)), list(key)).select(*old.columns, CHANGE_TYPE)
    updates = upserts.join(there, list(key), "left_semi").withColumn(CHANGE_TYPE, F.lit(data_files.POSTIMAGE))
    inserts = upserts.join(there, list(key), "left_anti").withColumn(CHANGE_TYPE, F.lit(data_files.INSERT))
    return before.unionByName(updates).unionByName(inserts)


def write_rows(rows: DataFrame, target: ScopeTarget) -> tuple[ChangeFile, ...]:
    """Writes such rows, a file for each of Spark's partitions, or one for each of the table's in it."""
    schema = rows_schema(target.schema).append(data_files.change_type())
    return _written_by_tasks(rows, target.uri, schema, lambda some: write_changes(target, some, random_id), ChangeFile)


_FILE = pa.schema({"file": pa.binary()})
"""A written file, as the task says it: as JSON."""


def _written_by_tasks(
    rows: DataFrame, uri: str, schema: pa.Schema, write: Callable[[pa.Table], Iterable[Written]], kind: type[Written]
) -> tuple[Written, ...]:
    """Has a task write the rows of each of Spark's partitions, as one file, or one for each of the table's partitions in it."""

    def task(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        held = [batch for batch in batches if batch.num_rows]
        if held:
            made = write(pa.Table.from_batches(held).cast(schema))
            sync([uri])  # on this machine, which need not be the one that commits
            yield pa.RecordBatch.from_pydict({"file": [msgspec.json.encode(file) for file in made]}, schema=_FILE)

    return tuple(msgspec.json.decode(row["file"], type=kind) for row in rows.mapInArrow(task, from_arrow_schema(_FILE)).collect())


def flush_large(spark: SparkSession, task: FlushTask, *, over_s3a: bool = False) -> ScopeReport:
    """Flushes one scope with the whole cluster, through the same drain as a small one.

    Args:
        over_s3a: let Spark itself read and write objects on S3; the session has to have the connector.
    """

    def steps() -> Steps[ScopeReport]:
        # Spark gives the files of partitions names and footers of its own
        native = over_s3a and not task.target.schema.partition_by and s3a.reaches(spark, task.target.location, (), os.environ)
        cold = [_LargeCold(spark, task, native=native)]

        def open_again() -> _LargeCold:
            cold.append(_LargeCold(spark, task, native=native))
            return cold[-1]

        yield from drain(_LargeHot(hot_scope(task)), open_again, attempts=task.attempts)
        return done(task, cold[-1].apply)

    return alone(guarded(task.target, "flush", task.clock, steps()))


@dataclass(frozen=True)
class _LargeHot:
    """A `HotScope` whose rows stay in the log: it passes on their places."""

    scope: LogScope

    @property
    def end(self) -> int:
        return self.scope.end

    def rows(self) -> PendingRows | None:
        return self.scope.pending

    def later(self, rows: PendingRows | None, after: int) -> PendingRows | None:
        kept = tuple(one for one in rows.ranges if one.last_seq > after) if rows else ()
        return replace(rows, ranges=kept) if rows and kept else None

    def again(self) -> _LargeHot:
        return _LargeHot(self.scope.again())


class _LargeCold:
    """A `ColdScope` that writes its files with Spark."""

    def __init__(self, spark: SparkSession, task: FlushTask, *, native: bool) -> None:
        self._spark = spark
        self._native = native
        self._task = task
        self._target = task.target
        self._key = list(task.target.schema.primary_key)
        self.apply = open_cold(task)

    def watermark(self) -> int | None:
        return self.apply.watermark()

    def commit(self, rows: PendingRows | None, end: int) -> Steps[None]:
        if rows is not None:
            metadata = self._metadata(rows)
            yield from self.apply.commit_written(self._written(rows, end), end, metadata)

    def _metadata(self, pending: PendingRows) -> list[str]:
        """Raises Conflict: the rows were settled meanwhile."""
        try:
            return LogReader(state_store(self._task.state_uri), self._task.target.log_id).metadata(pending)
        except Missing as gone:
            raise Conflict(f"{gone} was settled by another flush meanwhile") from gone

    def _written(self, pending: PendingRows, end: int) -> WrittenFiles:
        """Writes files that replace those that may hold a pending key, and counts the changes."""
        hot = self._newest(self._hot(pending, end)).cache()
        try:
            replaced = self._candidates(hot)
            old = self._cold(replaced)
            kept = old.join(hot, self._key, "left_anti").select(*old.columns)  # the join puts the key's columns first
            rows = kept.unionByName(hot.filter(F.col(OP) != DELETE).drop(OP))
            size = pending.bytes + sum(file.size for file in replaced)
            files = self._write(rows, size)
            changes = self._write_changes(hot, old, size) if replaced and self.apply.feeds else ()
            hits = hot.join(old.select(*self._key), self._key, "left_semi").groupBy(OP).count().collect()
            watermark = self.watermark()
            taken = _taken(pending, NOTHING if watermark is None else watermark)
            return replace(_counted(hot, {row[OP]: row["count"] for row in hits}, files, replaced, taken), changes=changes)
        finally:
            hot.unpersist()

    def _hot(self, pending: PendingRows, end: int) -> DataFrame:
        """The pending rows above the watermark, read from the log by as many tasks as it has chunks."""
        pieces = [replace(pending, ranges=(one,)) for one in pending.ranges]
        schema = rows_schema(self._target.schema).append(pa.field(OP, pa.int8()))
        watermark = self.watermark()
        rows = self._frame(_hot_reader(self._task, pieces), len(pieces), schema)
        return rows.filter((F.col(SEQ) > (NOTHING if watermark is None else watermark)) & (F.col(SEQ) <= end))

    def _cold(self, files: Sequence[DataFile]) -> DataFrame:
        table, location, schema = self.apply.table, self._target.location, rows_schema(self._target.schema)
        paths = [file.path for file in files]
        # columns of an older version are found by id, which only our own reader does
        by_name = self._native and files and not self.apply.replaces_all()
        if by_name and s3a.reaches(self._spark, location, paths, os.environ):
            return s3a.read(self._spark, location, paths, schema)
        ids = {} if table is None or not files else table.column_ids(self._target.schemas)
        return self._frame(_cold_reader(self._target, files, ids), len(files), schema)

    def _newest(self, hot: DataFrame) -> DataFrame:
        """The newest row of each key."""
        newest = hot.groupBy(*self._key).agg(F.max_by(F.struct(*hot.columns), F.col(SEQ)).alias("newest"))
        return newest.select("newest.*")

    def _candidates(self, hot: DataFrame) -> tuple[DataFile, ...]:
        """The files whose key ranges meet that of the pending rows; all of them where all have to be replaced."""
        table = self.apply.table
        if table is None or not table.files():
            return ()
        table.check_plain()
        table.check_partitions(self._target.schema)
        if self.apply.replaces_all():
            return table.files()
        fixed = [name for name in self._target.schema.partition_by if name in self._key]
        own = hot.groupBy(*(F.col(name).alias(f"own {name}") for name in fixed))
        lows = own.agg(*(F.min(name).alias(name) for name in self._key)).select(*self._key)
        highs = own.agg(*(F.max(name).alias(name) for name in self._key)).select(*self._key)
        types = pa.schema([rows_schema(self._target.schema).field(name) for name in self._key])
        return may_hold(table, lows.union(highs).toArrow().cast(types), self._key)

    def _write(self, rows: DataFrame, size: int) -> Sequence[NewFile]:
        """Writes rows of about this many bytes."""
        most = min(self._target.target_file_size, s3a_files.LARGEST) if self._native else self._target.target_file_size
        laid = self._laid(rows, max(1, round(size / most)))
        number = self.apply.next_batch()
        if self._native:
            return s3a_files.write(laid, self._target, batch_folder(number, random_id))
        target = self._target  # the tasks get it, and not the session

        def write(some: pa.Table) -> list[NewFile]:
            return write_files(target, some, lambda: batch_name(number, random_id))

        return _written_by_tasks(laid, target.uri, rows_schema(target.schema), write, NewFile)

    def _write_changes(self, hot: DataFrame, old: DataFrame, size: int) -> tuple[ChangeFile, ...]:
        rows = changed_rows(hot, old, self._key)
        return write_rows(self._laid(rows, max(1, round(size / self._target.target_file_size))), self._target)

    def _laid(self, rows: DataFrame, parts: int) -> DataFrame:
        by = (*self._target.schema.partition_by, *self._key)
        return rows.repartitionByRange(parts, *by) if parts > 1 else rows.coalesce(1)

    def _frame(self, read: Callable[[int], pa.Table], pieces: int, schema: pa.Schema) -> DataFrame:
        """A DataFrame whose partitions are what `read` makes of each piece's number."""
        if not pieces:
            return self._spark.createDataFrame([], from_arrow_schema(schema))

        def pull(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
            for batch in batches:
                for row in batch.to_pylist():
                    yield from read(row["id"]).cast(schema).to_batches()

        return self._spark.range(0, pieces, 1, pieces).mapInArrow(pull, from_arrow_schema(schema))


def _hot_reader(task: FlushTask, pieces: Sequence[PendingRows]) -> Callable[[int], pa.Table]:
    state_uri, log_id, schemas = task.state_uri, task.target.log_id, task.target.schemas
    names = [*rows_schema(task.target.schema).names, OP]

    def read(number: int) -> pa.Table:
        return LogReader(state_store(state_uri), log_id).rows(pieces[number], schemas).select(names)

    return read


def _cold_reader(target: ScopeTarget, files: Sequence[DataFile], column_ids: dict[str, int]) -> Callable[[int], pa.Table]:
    def read(number: int) -> pa.Table:
        opened = open_file(open_store(target.location), files[number].path, files[number].partition)
        return opened.read(read_schema(target.schema), column_ids)

    return read


def _taken(pending: PendingRows, watermark: int) -> tuple[int, int, int]:
    """The first and the last `_seq` beyond the watermark, and how many there are."""
    first = max(pending.first_seq, watermark + 1)
    return first, pending.last_seq, sum(max(0, one.last_seq - max(one.first_seq, first) + 1) for one in pending.ranges)


def _counted(
    hot: DataFrame,
    hits: dict[int, int],
    files: Sequence[NewFile],
    replaced: tuple[DataFile, ...],
    taken: tuple[int, int, int],
) -> WrittenFiles:
    upserts = F.count(F.when(F.col(OP) != DELETE, 1)).alias("upserts")
    total: Row = hot.agg(upserts).collect()[0]
    deleted = hits.get(DELETE, 0)
    updated = sum(hits.values()) - deleted
    rows = sum(file.rows for file in files)
    return WrittenFiles(tuple(files), replaced, total.upserts - updated, updated, deleted, rows, *taken)
