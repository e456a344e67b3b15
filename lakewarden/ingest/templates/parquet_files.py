"""The template `parquet`: row group by row group, in batches of a few mebibytes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

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
    """Raises:
    InvalidArgument: it is no Parquet file, or a part of it is broken.
    """
    with _unreadable():
        file = pq.ParquetFile(
            source.open(),
            pre_buffer=False,
            buffer_size=_BUFFER_BYTES,
            coerce_int96_timestamp_unit="us",
            thrift_string_size_limit=_STRING_BYTES,
            thrift_container_size_limit=_ENTRIES,
            page_checksum_verification=True,
        )
        source.check_columns(len(file.schema_arrow))
    read = 0
    for group in range(file.num_row_groups):
        facts = file.metadata.row_group(group)
        rows = _BATCH_BYTES * max(facts.num_rows, 1) // max(facts.total_byte_size, 1)
        batches = file.iter_batches(min(max(rows, 1), _BATCH_ROWS), row_groups=[group], use_threads=False)
        while True:
            with _unreadable():
                batch = next(batches, None)
            if batch is None:
                break
            read += batch.num_rows
            yield batch
    if read != file.metadata.num_rows:
        raise InvalidArgument(f"not a Parquet file that can be read: it holds {read:,} rows and names {file.metadata.num_rows:,}")


@contextmanager
def _unreadable() -> Iterator[None]:
    try:
        yield
    except MemoryError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InvalidArgument(f"not a Parquet file that can be read: {(str(error) or repr(error)).splitlines()[0]}") from error


PARQUET: Template[NoOptions] = Template("parquet", ("parquet",), read)
