"""The data source by its name, and its registration in a session."""

from __future__ import annotations

import os
from typing import ClassVar

from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from lakewarden.base.settings import Settings, load_settings
from lakewarden.catalog.state.processes import Beat, Processes
from lakewarden.spark.batch_read import BatchReader, FilteredReader, readable, schema_of
from lakewarden.spark.columns import spark_schema
from lakewarden.spark.connection import SparkConnection, called_by_spark
from lakewarden.spark.options import ReadOptions, StreamOptions, WriteOptions, is_stream, mark_streams
from lakewarden.spark.staged_write import BatchWriter, StreamWriter, check_append
from lakewarden.spark.stream_keeper import keep_streams
from lakewarden.spark.stream_read import ChangeStream, stream_columns, streamable
from lakewarden.storage.location import canonical
from lakewarden.tables.warehouse import Warehouse

NAME = "lakewarden"


class LakewardenSource(DataSource):
    """Tables of one warehouse; `register` makes a subclass for each session."""

    connection: ClassVar[SparkConnection]

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        with called_by_spark():
            if is_stream(self.options):
                return stream_columns(streamable(self.connection, StreamOptions.of(self.options)).schema)
            options = ReadOptions.of(self.options)
            warehouse = self.connection.open()
            return spark_schema(schema_of(warehouse, readable(warehouse, options), options))

    def reader(self, schema: StructType) -> DataSourceReader:
        with called_by_spark():
            options = ReadOptions.of(self.options)
        reader = FilteredReader if options.push_filters else BatchReader
        return reader(self.connection, options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # Spark's signature
        with called_by_spark():
            check_append(overwrite=overwrite)
            return BatchWriter(self.connection, WriteOptions.of(self.options))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802  # as above
        with called_by_spark():
            check_append(overwrite=overwrite)
            return StreamWriter(self.connection, WriteOptions.of_stream(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  # Spark's name
        with called_by_spark():
            options = StreamOptions.of(self.options)
        return ChangeStream(self.connection, options, schema)


_DRIVERS: dict[str, Beat] = {}
"""By the URI of their warehouse. A driver says nothing at its end: its process has ended, or it says nothing more."""
_SHORT_SECONDS = 10.0


def _note(warehouse: Warehouse) -> None:
    if warehouse.uri not in _DRIVERS:
        processes, clock, new_id = Processes(warehouse.state), warehouse.clock, warehouse.new_id
        _DRIVERS[warehouse.uri] = processes.note("spark driver", NAME, clock=clock, new_id=new_id, after=_SHORT_SECONDS)


def register(spark: SparkSession, warehouse: str, settings: Settings | None) -> None:
    """As `lakewarden.spark.register`."""
    chosen = settings or load_settings(os.environ)
    connection = SparkConnection.of(canonical(warehouse), chosen, spark.sparkContext.defaultParallelism)
    _note(connection.open())
    # without it, Spark refuses a reader that takes filters
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    mark_streams(NAME)
    keep_streams(spark, NAME, connection)
    spark.dataSource.register(type(LakewardenSource.__name__, (LakewardenSource,), {"connection": connection}))
