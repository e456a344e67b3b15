"""What a large flush says to readers of Delta's change data feed: how its rows change, as a DataFrame, and as change files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # its name everywhere
from pyspark.sql.pandas.types import from_arrow_schema

from lakewarden.base.clock import random_id
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.parquet import change_files
from lakewarden.delta.parquet.change_files import CHANGE_TYPE, ChangeFile, write_changes
from lakewarden.delta.parquet.schema import rows_schema
from lakewarden.log.record import DELETE, OP
from lakewarden.storage.disk import sync

_COLUMNS: list[tuple[str, pa.DataType]] = [
    ("path", pa.string()),
    ("size", pa.int64()),
    ("rows", pa.int64()),
    ("partition", pa.string()),
]
_CHANGE_FILE = pa.schema(_COLUMNS)
"""The fields of `ChangeFile`, as a task that writes returns them; the partition as JSON."""


def changed_rows(hot: DataFrame, old: DataFrame, key: Sequence[str]) -> DataFrame:
    """How the rows of files that are replaced change, and which are new.

    Args:
        hot: the newest pending row of each key, with `_op`.
        old: the rows of the files.
    """
    there = old.select(*key).distinct()
    upserts = hot.filter(F.col(OP) != DELETE).drop(OP)
    word = F.when(F.col(OP) == DELETE, change_files.DELETED).otherwise(change_files.PREIMAGE)
    before = old.join(hot.select(*key, word.alias(CHANGE_TYPE)), list(key)).select(*old.columns, CHANGE_TYPE)
    updates = upserts.join(there, list(key), "left_semi").withColumn(CHANGE_TYPE, F.lit(change_files.POSTIMAGE))
    inserts = upserts.join(there, list(key), "left_anti").withColumn(CHANGE_TYPE, F.lit(change_files.INSERT))
    return before.unionByName(updates).unionByName(inserts)


def write_rows(rows: DataFrame, target: ScopeTarget) -> tuple[ChangeFile, ...]:
    """Writes such rows, a file for each of Spark's partitions, or one for each of the table's in it."""
    made = rows.mapInArrow(_writer(target), from_arrow_schema(_CHANGE_FILE)).collect()
    return tuple(ChangeFile(row["path"], row["size"], row["rows"], _partition(row["partition"])) for row in made)


def _writer(target: ScopeTarget) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    def write(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        rows = [batch for batch in batches if batch.num_rows]
        if rows:
            schema = rows_schema(target.schema).append(change_files.change_type())
            made = write_changes(target, pa.Table.from_batches(rows).cast(schema), random_id)
            sync([target.uri])  # on this machine, which need not be the one that commits
            told = [asdict(file) | {"partition": json.dumps(file.partition)} for file in made]
            yield pa.RecordBatch.from_pylist(told, schema=_CHANGE_FILE)

    return write


def _partition(text: str) -> tuple[tuple[str, str | None], ...]:
    return tuple((name, value) for name, value in json.loads(text))
