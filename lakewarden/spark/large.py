"""The flush of a scope that is too large for one task: read, merged and written by Spark, committed like any other.

Spark reads and writes through our own functions (`mapInArrow`), so file names, field ids, footers and statistics are
those of every other flush, and no Hadoop connector is needed for an object store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import astuple, dataclass, replace

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import Row

from lakewarden.clock import random_id
from lakewarden.delta.apply import ColdApply, Written
from lakewarden.delta.change import may_hold
from lakewarden.delta.files import DataFile, NewFile, batch_name, write_file
from lakewarden.delta.place import place_of
from lakewarden.delta.reading import open_file
from lakewarden.delta.schema import SEQ, file_schema, rows_schema
from lakewarden.log.record import OP
from lakewarden.log.view import PendingRows, rows_of
from lakewarden.operations.flush import FlushTask
from lakewarden.report import ScopeTarget
from lakewarden.warehouse import state_store

_DELETE = 1

_NEW_FILE = pa.schema(
    [
        ("path", pa.string()),
        ("size", pa.int64()),
        ("rows", pa.int64()),
        ("stats", pa.string()),
        ("min_seq", pa.int64()),
        ("max_seq", pa.int64()),
        ("schema_version", pa.int32()),
    ]
)
"""The fields of `NewFile`, as a writing task returns them."""


@dataclass(frozen=True)
class LargeFlush:
    """Writes the files of a large scope's flush with Spark; `operations.flush` commits them."""

    session: SparkSession

    def write(self, task: FlushTask, cold: ColdApply) -> Written:
        """Reads the pending rows and the files that may hold their keys, and writes what replaces those files."""
        key = list(task.target.schema.primary_key)
        hot = self._newest(self._hot(task, cold.watermark()), key).cache()
        try:
            replaced = self._candidates(cold, hot, key)
            ids = cold.column_ids()
            old = self._cold(task.target, replaced, ids)
            rows = old.join(hot, key, "left_anti").unionByName(hot.filter(F.col(OP) != _DELETE).drop(OP))
            files = self._written(task, rows, replaced, cold.next_batch())
            matched = hot.join(old.select(*key), key, "left_semi").groupBy(OP).count().collect()
            return _counted(hot, matched, files, replaced)
        finally:
            hot.unpersist()

    def _hot(self, task: FlushTask, watermark: int | None) -> DataFrame:
        """The pending rows above the watermark, read from the log by as many tasks as it has chunks."""
        ranges = [replace(task.pending, ranges=(one,)) for one in task.pending.ranges]
        schema = rows_schema(task.target.schema).append(pa.field(OP, pa.int8()))
        floor = -1 if watermark is None else watermark
        rows = self._map(ranges, _hot_reader(task.state_uri, task.target), schema)
        return rows.filter((F.col(SEQ) > floor) & (F.col(SEQ) <= task.end))

    def _cold(self, target: ScopeTarget, files: Iterable[DataFile], column_ids: dict[str, int]) -> DataFrame:
        paths = [file.path for file in files]
        return self._map(paths, _cold_reader(target, column_ids), rows_schema(target.schema))

    def _newest(self, hot: DataFrame, key: list[str]) -> DataFrame:
        """The newest row of each key."""
        newest = hot.groupBy(*key).agg(F.max_by(F.struct(*hot.columns), F.col(SEQ)).alias("newest"))
        return newest.select("newest.*")

    def _candidates(self, cold: ColdApply, hot: DataFrame, key: list[str]) -> tuple[DataFile, ...]:
        """The files whose key ranges meet that of the pending rows."""
        if cold.table is None:
            return ()
        ends = hot.agg(*(F.min(name).alias(f"min_{name}") for name in key), *(F.max(name).alias(f"max_{name}") for name in key))
        found = ends.toArrow()
        bounds = {name: pa.chunked_array([*found[f"min_{name}"].chunks, *found[f"max_{name}"].chunks]) for name in key}
        return may_hold(cold.table, pa.table(bounds), key) if cold.evolved() is False else cold.table.files()

    def _written(self, task: FlushTask, rows: DataFrame, replaced: tuple[DataFile, ...], number: int) -> list[NewFile]:
        size = task.pending.bytes + sum(file.size for file in replaced)
        parts = max(1, round(size / task.target.target_file_size))
        laid = rows.repartitionByRange(parts, *task.target.schema.primary_key)
        made = laid.mapInArrow(_writer(task.target, number), from_arrow_schema(_NEW_FILE)).collect()
        return [_new_file(row) for row in made]

    def _map(self, pieces: list[PendingRows] | list[str], read: Callable[..., pa.Table], schema: pa.Schema) -> DataFrame:
        """A DataFrame whose partitions are what `read` makes of each piece."""
        if not pieces:
            return self.session.createDataFrame([], from_arrow_schema(schema))
        numbers = self.session.range(0, len(pieces), 1, len(pieces))

        def pull(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for index in batch.column(0).to_pylist():
                    yield from read(pieces[index]).cast(schema).to_batches()

        return numbers.mapInArrow(pull, from_arrow_schema(schema))


def _hot_reader(state_uri: str, target: ScopeTarget) -> Callable[[PendingRows], pa.Table]:
    def read(piece: PendingRows) -> pa.Table:
        rows = rows_of(state_store(state_uri), piece, target.schemas)
        return rows.select([*rows_schema(target.schema).names, OP])

    return read


def _cold_reader(target: ScopeTarget, column_ids: dict[str, int]) -> Callable[[str], pa.Table]:
    def read(path: str) -> pa.Table:
        return open_file(place_of(target.uri), path).read(file_schema(target.schema), column_ids)

    return read


def _writer(target: ScopeTarget, number: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = [batch for batch in batches if batch.num_rows]
        if not rows:
            return
        whole = pa.Table.from_batches(rows).cast(rows_schema(target.schema))
        made = write_file(target, whole, batch_name(number, random_id))
        yield pa.RecordBatch.from_arrays([pa.array([value]) for value in astuple(made)], schema=_NEW_FILE)

    return write


def _new_file(row: Row) -> NewFile:
    return NewFile(row.path, row.size, row.rows, row.stats, row.min_seq, row.max_seq, row.schema_version)


def _counted(hot: DataFrame, matched: list[Row], files: list[NewFile], replaced: tuple[DataFile, ...]) -> Written:
    hits = {row[OP]: row["count"] for row in matched}
    counts = hot.agg(F.count(F.when(F.col(OP) != _DELETE, 1)).alias("upserts"), F.min(SEQ).alias("low"), F.max(SEQ).alias("high"))
    total = counts.collect()[0]
    updated = hits.get(0, 0)
    return Written(
        files=tuple(files),
        replaced=replaced,
        inserted=total.upserts - updated,
        updated=updated,
        deleted=hits.get(_DELETE, 0),
        rows=sum(file.rows for file in files),
        first_seq=total.low,
        last_seq=total.high,
    )
