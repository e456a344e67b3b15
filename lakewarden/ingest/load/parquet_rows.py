"""Reads row groups of a Parquet file, a batch at a time. Columns are found by their names; none is cast where that is inexact."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from lakewarden.catalog.model import TableSchema
from lakewarden.errors import InvalidArgument
from lakewarden.ingest.load.fitting import ConvertedBlock, text_column
from lakewarden.tables.rows.columns import from_array

_BATCH_ROWS = 1 << 16


def open_parquet(file: BinaryIO) -> pq.ParquetFile:
    """Raises:
    InvalidArgument: it is no Parquet file.
    """
    with unreadable():
        return pq.ParquetFile(file, pre_buffer=False, coerce_int96_timestamp_unit="us")


@contextmanager
def unreadable() -> Iterator[None]:
    try:
        yield
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:  # Arrow raises OSError for a damaged footer or page
        raise InvalidArgument(f"not a Parquet file that can be read: {str(error).splitlines()[0]}") from error


def parse_parquet(schema: TableSchema, parquet: pq.ParquetFile, first: int, last: int) -> Iterator[ConvertedBlock]:
    """The rows of the groups from `first` up to `last`, which is not among them."""
    batches = parquet.iter_batches(_BATCH_ROWS, row_groups=list(range(first, last)), use_threads=False)
    while True:
        with unreadable():
            batch = next(batches, None)
        if batch is None:
            return
        given = ConvertedBlock(batch.num_rows)
        for name, values in zip(batch.schema.names, batch.columns, strict=True):
            given.take(schema.column(name) or text_column(name), values, from_array)
        yield given
