"""Makes Arrow arrays from buffers.

`pa.array` imports pandas where that is installed, which takes a command half a second.
"""

from __future__ import annotations

from collections.abc import Collection
from io import BytesIO
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


def texts(values: Collection[str]) -> pa.Array[Any]:
    """Returns an array of strings."""
    encoded = [value.encode() for value in values]
    ends = np.zeros(len(encoded) + 1, np.int32)
    np.cumsum([len(each) for each in encoded], out=ends[1:])
    return pa.StringArray.from_buffers(len(encoded), pa.py_buffer(ends.data), pa.py_buffer(b"".join(encoded)))


def numbers(values: NDArray[np.int64], *, short: bool = False) -> pa.Array[Any]:
    """Returns an array of 64-bit integers, or with `short` of 32 bits, which shares the memory of `values` where it can."""
    found: NDArray[Any] = np.ascontiguousarray(values, np.int32 if short else np.int64)
    return pa.Array.from_buffers(pa.int32() if short else pa.int64(), len(found), [None, pa.py_buffer(found.data)])


def flags(rows: NDArray[np.bool_]) -> pa.Array[Any]:
    """Returns an array of booleans."""
    return pa.Array.from_buffers(pa.bool_(), len(rows), [None, pa.py_buffer(np.packbits(rows, bitorder="little").data)])


def distinct(rows: pa.Table) -> int:
    """Returns how many of the rows differ; NULL is equal to NULL. Columns may have any names."""
    if rows.num_columns == 1:
        return len(rows.column(0).unique())  # of few rows, in a tenth of the time
    names = [*map(str, range(rows.num_columns))]
    return rows.rename_columns(names).group_by(names, use_threads=False).aggregate([]).num_rows


def stream_bytes(table: pa.Table) -> bytes:
    """Returns a table as a stream of Arrow by itself."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def taken(sink: BytesIO) -> bytes:
    """What was written to a sink since the last time."""
    found = sink.getvalue()
    sink.seek(0)
    sink.truncate()
    return found


def values(column: pa.ChunkedArray[Any] | pa.Array[Any]) -> NDArray[Any]:
    """Returns the values of a column of integers or booleans without NULLs; `numpy.asarray` imports pandas too."""
    found = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    data: Any = found.buffers()[1]
    start, end = found.offset, found.offset + len(found)
    if data is None:
        return np.zeros(0, np.int64)
    if pa.types.is_boolean(found.type):
        return np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little", count=end)[start:].astype(np.bool_)
    return np.frombuffer(data, np.int32 if pa.types.is_int32(found.type) else np.int64)[start:end]
