"""`df.write.format("lakewarden").mode("append")`: one atomic call for each job."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from lakewarden.errors import Unsupported
from lakewarden.spark.source.connection import SparkConnection, called_by_spark
from lakewarden.spark.source.options import WriteOptions
from lakewarden.spark.source.staged_write import StagedRows, StagedWrite


class BatchWriter(DataSourceArrowWriter):
    """Made where Spark plans the write, and sent to the tasks and to where the job is committed."""

    def __init__(self, connection: SparkConnection, options: WriteOptions) -> None:
        with called_by_spark():
            self._write = StagedWrite.begin(connection, options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:  # type: ignore[override]  # as pyspark's own does
        with called_by_spark():
            return self._write.stage(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        with called_by_spark():
            self._write.publish(staged(messages), self._write.options.once(self._write.options.batch_id))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        with called_by_spark():
            self._write.abandon(staged(messages))


def check_append(*, overwrite: bool) -> None:
    """Raises:
    Unsupported: the mode is not `append`.
    """
    if overwrite:
        raise Unsupported('the source only appends, and replaces rows by their keys: use .mode("append") or outputMode("append")')


def staged(messages: list[WriterCommitMessage | None]) -> list[StagedRows]:
    """Those of the tasks that ended."""
    return [each for each in messages if isinstance(each, StagedRows)]
