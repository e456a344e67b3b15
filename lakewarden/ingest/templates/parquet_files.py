"""The template `parquet`: row group by row group, in batches of a few mebibytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from lakewarden.errors import InvalidArgument
from lakewarden.ingest.templates.object_file import ObjectFile
from lakewarden.ingest.templates.template import Columns, NoOptions, Template

_BUFFER_BYTES = 1 << 20
"""Of each column while a row group is read: no column's part of a row group is in memory as a whole."""
_BATCH_BYTES = 8 << 20
_BATCH_ROWS = 1 << 16
_STRING_BYTES = 16 << 20
_ENTRIES = 1_000_000
"""The most that the metadata may have: a file that claims more is refused before room is made for it."""


def read(source: ObjectFile, _options: NoOptions, _columns: Columns) -> Iterator[pa.RecordBatch]:
    """Raises InvalidArgument: it is no Parquet file, or a part of it is broken."""
    file = open_parquet(source.open(), _BUFFER_BYTES)
    source.check_columns(len(file.schema_arrow))
    read = 0
    for batch in row_groups(file, range(file.num_row_groups)):
        read += batch.num_rows
        yield batch
    if read != file.metadata.num_rows:
        raise InvalidArgument(f"not a Parquet file that can be read: it holds {read:,} rows and names {file.metadata.num_rows:,}")


def open_parquet(file: BinaryIO, buffer_bytes: int = 0) -> pq.ParquetFile:
    """Opens a file that anyone may have made. `buffer_bytes`: of each column at a time; 0 reads its part of a row group at once,
    in one request.

    Raises:
        InvalidArgument: it is no Parquet file.
    """
    with _unreadable():
        found = pq.ParquetFile(
            file,
            pre_buffer=False,
            buffer_size=buffer_bytes,
            coerce_int96_timestamp_unit="us",
            thrift_string_size_limit=_STRING_BYTES,
            thrift_container_size_limit=_ENTRIES,
            page_checksum_verification=True,
        )
        found.schema_arrow  # noqa: B018  # raises where Arrow has no such type
        return found


def row_groups(file: pq.ParquetFile, groups: Iterable[int]) -> Iterator[pa.RecordBatch]:
    """The rows of these row groups, in order, in batches of a few mebibytes.

    Raises:
        InvalidArgument: a part of the file is broken.
    """
    for group in groups:
        facts = file.metadata.row_group(group)
        rows = _BATCH_BYTES * max(facts.num_rows, 1) // max(facts.total_byte_size, 1)
        batches = file.iter_batches(min(max(rows, 1), _BATCH_ROWS), row_groups=[group], use_threads=False)
        while True:
            with _unreadable():
                batch = next(batches, None)
            if batch is None:
                break
            yield batch


@contextmanager
def _unreadable() -> Iterator[None]:
    try:
        yield
    except MemoryError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InvalidArgument(f"not a Parquet file that can be read: {(str(error) or repr(error)).splitlines()[0]}") from error


PARQUET: Template[NoOptions] = Template("parquet", ("parquet",), read)
