"""`df.writeStream.format("lakewarden")`: each batch of a stream once, whoever repeats it.

The number of a batch comes with its commit. So its rows are staged first, and the segment that makes them visible carries the
stream's id and the number: whether a batch is there is read from the log itself, also after its rows were flushed.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from lakewarden.spark.source.batch_write import staged
from lakewarden.spark.source.connection import SparkConnection, called_by_spark
from lakewarden.spark.source.options import WriteOptions
from lakewarden.spark.source.staged_write import StagedWrite


class StreamWriter(DataSourceStreamArrowWriter):
    """Made anew for each batch where Spark plans it, and once more where it is committed: the tasks say what they staged."""

    def __init__(self, connection: SparkConnection, options: WriteOptions) -> None:
        with called_by_spark():
            self._write = StagedWrite.begin_stream(connection, options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:  # type: ignore[override]  # as pyspark's own does
        with called_by_spark():
            return self._write.stage(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  # Spark's name
        with called_by_spark():
            self._write.publish(staged(messages), self._write.options.once(batchId))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  # Spark's name
        with called_by_spark():
            self._write.abandon(staged(messages))
