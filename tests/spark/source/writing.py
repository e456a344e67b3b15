"""Writes by the source as Spark calls it: each process has its own copy of the writer."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence

import pyarrow as pa

from lakewarden import Lakehouse
from lakewarden.spark.options import WriteOptions
from lakewarden.spark.staged_write import BatchWriter, StreamWriter
from tests.spark.source.reading import connection

Rows = Sequence[Mapping[str, object]]


def batches(rows: Rows) -> list[pa.RecordBatch]:
    return pa.Table.from_pylist([dict(row) for row in rows]).to_batches()


def batch_writer(lake: Lakehouse, table: str, **options: str) -> BatchWriter:
    return BatchWriter(connection(lake), WriteOptions.of({"table": table, **options}))


def write(lake: Lakehouse, table: str, *tasks: Rows, **options: str) -> None:
    """A job with these tasks."""
    writer = batch_writer(lake, table, **options)
    writer.commit([pickle.loads(pickle.dumps(writer)).write(iter(batches(rows))) for rows in tasks])


def stream_batch(lake: Lakehouse, table: str, number: int, *tasks: Rows, **options: str) -> None:
    """A batch of a query, which Spark plans, runs and commits each in a process of its own."""
    chosen = WriteOptions.of_stream({"table": table, "stream_id": "s", **options})
    planned = pickle.dumps(StreamWriter(connection(lake), chosen))
    messages = [pickle.loads(pickle.dumps(pickle.loads(planned).write(iter(batches(rows))))) for rows in tasks]
    StreamWriter(connection(lake), chosen).commit(messages, number)
