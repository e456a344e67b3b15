"""Reads by the source as Spark calls it, in this process: no JVM is started."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence

from pyspark.sql.datasource import Filter
from pyspark.sql.types import StructType

from lakewarden import Lakehouse
from lakewarden.base.settings import Settings
from lakewarden.spark.batch_read import BatchReader, FilteredReader
from lakewarden.spark.connection import SparkConnection
from lakewarden.spark.options import ReadOptions

Row = Mapping[str, object]


def connection(lake: Lakehouse, settings: Settings | None = None) -> SparkConnection:
    return SparkConnection.of(lake.warehouse.uri, settings or Settings(), 2)


def reader(
    lake: Lakehouse, table: str, settings: Settings | None = None, columns: StructType | None = None, **options: str
) -> BatchReader:
    return BatchReader(connection(lake, settings), ReadOptions.of({"table": table, **options}), columns)


def rows_of(planned: BatchReader) -> list[Row]:
    """As Spark does, which pickles the reader for its tasks before it asks for the partitions."""
    task = pickle.loads(pickle.dumps(planned))
    parts = [batch for partition in planned.partitions() for batch in task.read(partition)]
    return [row for part in parts for row in part.to_pylist()]


def read(lake: Lakehouse, table: str, filters: Sequence[Filter] = (), **options: str) -> list[Row]:
    planned = FilteredReader(connection(lake), ReadOptions.of({"table": table, **options}))
    assert list(planned.pushFilters(list(filters))) == list(filters), "Spark applies every filter again"
    return rows_of(planned)
