"""Rows of a result as DataRow messages, by whole columns: no Python for each row of the usual types."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.serve.postgres.wire.kinds import Kind
from lakewarden.serve.postgres.wire.values import wire

_CHUNK_BYTES, _CHUNK_ROWS = 1 << 20, 10_000
_BYTES = pa.large_binary()
_NULL = b"\xff\xff\xff\xff"
_NOTHING = pa.scalar(b"", _BYTES)


def parts(table: pa.Table) -> Iterator[pa.Table]:
    """The rows in parts of about a megabyte."""
    size = max(1, min(_CHUNK_ROWS, table.num_rows * _CHUNK_BYTES // max(table.nbytes, 1)))
    return (table.slice(start, size) for start in range(0, table.num_rows, size))


def encoded(part: pa.Table, kinds: Sequence[Kind], binary: Sequence[bool]) -> bytes:
    """The part's rows as messages, one after the other."""
    fields: list[pa.Array[Any]] = []
    for column, kind, as_binary in zip(part.columns, kinds, binary, strict=True):
        values = wire(column, kind, binary=as_binary)
        fields += [_lengths(values), values]
    body = _joined(fields)
    heads = np.empty((len(body), 7), np.uint8)
    heads[:, 0] = ord("D")
    heads[:, 1:5] = _big(_sizes(body) + 6)
    heads[:, 5:7] = np.frombuffer(len(fields[::2]).to_bytes(2), np.uint8)
    return _data(_joined([_fixed(heads), body]))


def _lengths(values: pa.Array[Any]) -> pa.Array[Any]:
    found = _fixed(_big(_sizes(values)))
    return pc.if_else(pc.is_valid(values), found, pa.scalar(_NULL, _BYTES)) if values.null_count else found


def _big(numbers: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Four bytes of each."""
    return numbers.astype(">i4").view(np.uint8).reshape(-1, 4)


def _fixed(rows: np.ndarray[Any, Any]) -> pa.Array[Any]:
    buffer = pa.py_buffer(rows.tobytes())
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(rows.shape[1]), len(rows), [None, buffer]).cast(_BYTES)


def _sizes(values: pa.Array[Any]) -> np.ndarray[Any, Any]:
    """The bytes of each, 0 of a NULL."""
    return np.asarray(pc.call_function("coalesce", [pc.call_function("binary_length", [values]), pa.scalar(0, pa.int64())]))


def _joined(fields: Sequence[pa.Array[Any]]) -> pa.Array[Any]:
    options = pc.JoinOptions(null_handling="replace", null_replacement="")
    found: pa.Array[Any] = pc.call_function("binary_join_element_wise", [*fields, _NOTHING], options)
    return found


def _data(messages: pa.Array[Any]) -> bytes:
    """All values of an array that begins at its buffers' beginning."""
    buffer = messages.buffers()[2]
    return b"" if buffer is None else buffer.to_pybytes()
