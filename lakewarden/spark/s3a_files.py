"""Data files on S3 that Spark itself writes over `s3a://`, with Delta's own writer, without committing them.

Delta's writer needs no Hadoop committer: a task writes its files at their final place, under unique names, and reports to the
driver which of them count. A task or driver that dies leaves whole files, which name their scope and which a vacuum removes
(docs/decisions/0015).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # its name everywhere

from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.parquet.files import NewFile, scope_keys
from lakewarden.delta.parquet.reading import spark_file
from lakewarden.delta.parquet.schema import SEQ, field_id, file_schema
from lakewarden.spark import s3a
from lakewarden.storage.open import open_store

_OPTIONS = {"parquet.compression.codec.zstd.level": "1", "delta.dataSkippingNumIndexedCols": "0"}
"""Delta's statistics are not used: its texts are shorter than ours, its timestamps less exact."""

LARGEST = 1 << 30
"""Bytes of a file: S3 takes five times as much in one request, and partitions are not all of one size."""


def write(rows: DataFrame, target: ScopeTarget, folder: str) -> list[NewFile]:
    """Writes one file for each partition that has rows, into a folder of the scope that no other writer has.

    Raises:
        StorageRefused, StorageUnavailable: the store refuses, or cannot be reached; what was written is an orphan.
    """
    with s3a.explained(f"cannot write files of {target.location} over s3a"):
        found = _written(_described(rows, target), s3a.uri(target.location, folder), target.compression)
    files = [spark_file(target, f"{folder}/{one.path}", one.size) for one in found]
    kept = [file for file in files if file.rows]
    store = open_store(target.location)
    store.delete(set(store.keys(folder)) - {file.path for file in kept})  # files of retried tasks, or of none
    return kept


@dataclass(frozen=True)
class _Written:
    path: str
    size: int


def _written(rows: DataFrame, uri: str, compression: str) -> list[_Written]:
    """Writes through a Delta transaction on a table that does not exist, and never commits it."""
    spark = rows.sparkSession
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")  # of the whole session: a new one takes seconds
    jvm: Any = spark._jvm  # pyspark's own way to it
    delta, started = jvm.org.apache.spark.sql.delta, spark._jsparkSession
    given = jvm.PythonUtils.toScalaMap({"compression": compression})
    options = jvm.scala.Option.apply(delta.DeltaOptions(given, started.sessionState().conf()))
    transaction = delta.DeltaLog.forTable(started, uri).startTransaction()
    transaction.updateMetadata(delta.actions.Action.fromJson(_metadata(rows)), False)
    added = transaction.writeFiles(rows._jdf, options)
    return [_Written(added.apply(at).path(), added.apply(at).size()) for at in range(added.size())]


def _metadata(rows: DataFrame) -> str:
    """Delta's action that says which columns a table has, and how its files are written."""
    columns = {"schemaString": rows.schema.json(), "partitionColumns": []}
    written = {"format": {"provider": "parquet", "options": {}}, "configuration": _OPTIONS}
    return json.dumps({"metaData": {"id": "never committed"} | columns | written})


def _described(rows: DataFrame, target: ScopeTarget) -> DataFrame:
    """The columns in their order, with the footer's metadata: their ids, and at `_seq` the scope of the rows."""
    schema = file_schema(target.schema)
    return rows.select(*(F.col(field.name).alias(field.name, metadata=_said(field, target)) for field in schema))


def _said(field: pa.Field[Any], target: ScopeTarget) -> dict[str, str | int]:
    keys = {key.decode(): value for key, value in scope_keys(target).items()} if field.name == SEQ else {}
    return {"parquet.field.id": field_id(field)} | keys
