"""Values of one column as the bytes that PostgreSQL's text and binary formats have for them."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.json_values import json_row
from lakewarden.serve.postgres.wire import kinds
from lakewarden.serve.postgres.wire.kinds import Kind
from lakewarden.serve.postgres.wire.numerics import binary_numeric

_BYTES = pa.large_binary()
_EPOCH_DAYS = (date(2000, 1, 1) - date(1970, 1, 1)).days
_EPOCH_MICROS = _EPOCH_DAYS * 86_400_000_000


def wire(column: Any, kind: Kind, *, binary: bool) -> pa.Array[Any]:
    """The column's values as binary, NULL where they are."""
    values = column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    if kind.element is not None:
        return pa.array([_list(one, kind.element, binary=binary) for one in values], _BYTES)
    found = (_BINARY if binary else _TEXTS).get(kind.oid, _text)(values)
    return found.cast(_BYTES)


def _text(values: pa.Array[Any]) -> pa.Array[Any]:
    """As Arrow writes it; what has parts is JSON."""
    if pa.types.is_nested(values.type) or pa.types.is_interval(values.type) or pa.types.is_duration(values.type):
        return pa.array([None if one is None else _as_json(one) for one in values.to_pylist()], pa.large_string())
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    return values.cast(pa.large_string())


def _as_json(value: object) -> str:
    shown = json_row({"v": value})["v"]
    return shown if isinstance(shown, str) else json.dumps(shown, ensure_ascii=False)


def _flags(values: pa.Array[Any]) -> pa.Array[Any]:
    found: pa.Array[Any] = pc.if_else(values, "t", "f")
    return found


def _floating(values: pa.Array[Any]) -> pa.Array[Any]:
    found: pa.Array[Any] = values.cast(pa.large_string())
    for ours, theirs in (("inf", "Infinity"), ("-inf", "-Infinity"), ("nan", "NaN"), ("-nan", "NaN")):
        found = pc.if_else(pc.equal(found, pa.scalar(ours, found.type)), theirs, found)
    return found


def _moments(values: pa.Array[Any]) -> pa.Array[Any]:
    return pc.replace_substring(values.cast(pa.large_string()), "Z", "+00")


def _hexadecimal(values: pa.Array[Any]) -> pa.Array[Any]:
    return pa.array([None if one is None else "\\x" + one.hex() for one in values.to_pylist()], pa.large_string())


_TEXTS: Mapping[int, Callable[[pa.Array[Any]], pa.Array[Any]]] = {
    kinds.BOOL.oid: _flags,
    kinds.FLOAT4.oid: _floating,
    kinds.FLOAT8.oid: _floating,
    kinds.TIMESTAMPTZ.oid: _moments,
    kinds.BYTEA.oid: _hexadecimal,
}


def _packed(form: str) -> Callable[[pa.Array[Any]], pa.Array[Any]]:
    """Numbers in network order; numpy's form of one."""

    def pack(values: pa.Array[Any]) -> pa.Array[Any]:
        plain = values.fill_null(0) if values.null_count else values
        data = np.asarray(plain).astype(form)
        return _masked(pa.py_buffer(data.tobytes()), data.itemsize, values)

    return pack


def _days(values: pa.Array[Any]) -> pa.Array[Any]:
    return _packed(">i4")(pc.subtract(values.cast(pa.int32()), _EPOCH_DAYS))


def _micros(values: pa.Array[Any]) -> pa.Array[Any]:
    plain = values.cast(pa.timestamp("us", values.type.tz)).cast(pa.int64())
    return _packed(">i8")(pc.subtract(plain, _EPOCH_MICROS))


def _times(values: pa.Array[Any]) -> pa.Array[Any]:
    return _packed(">i8")(values.cast(pa.int64()))


def _bits(values: pa.Array[Any]) -> pa.Array[Any]:
    return _packed("u1")(values.cast(pa.uint8()))


def _numerics(values: pa.Array[Any]) -> pa.Array[Any]:
    return pa.array([None if one is None else binary_numeric(Decimal(one)) for one in values.to_pylist()], _BYTES)


def _masked(data: pa.Buffer, size: int, values: pa.Array[Any]) -> pa.Array[Any]:
    mask = values.is_valid()
    found = pa.FixedSizeBinaryArray.from_buffers(pa.binary(size), len(values), [None, data])
    return pc.if_else(mask, found.cast(_BYTES), pa.scalar(None, _BYTES)) if values.null_count else found


_BINARY: Mapping[int, Callable[[pa.Array[Any]], pa.Array[Any]]] = {
    kinds.BOOL.oid: _bits,
    kinds.INT2.oid: _packed(">i2"),
    kinds.INT4.oid: _packed(">i4"),
    kinds.INT8.oid: _packed(">i8"),
    kinds.OID.oid: _packed(">u4"),
    kinds.FLOAT4.oid: _packed(">f4"),
    kinds.FLOAT8.oid: _packed(">f8"),
    kinds.DATE.oid: _days,
    kinds.TIME.oid: _times,
    kinds.TIMESTAMP.oid: _micros,
    kinds.TIMESTAMPTZ.oid: _micros,
    kinds.NUMERIC.oid: _numerics,
    kinds.BYTEA.oid: lambda values: values.cast(_BYTES),
}


def _list(value: pa.Scalar[Any], element: Kind, *, binary: bool) -> bytes | None:
    """A list with one dimension, or none where it is empty."""
    if not value.is_valid:
        return None
    items = wire(pa.chunked_array([value.values]), element, binary=binary).to_pylist()  # type: ignore[attr-defined]
    if not binary:
        return b"{" + b",".join(map(_quoted, items)) + b"}"
    head = struct.pack("!iii", 1 if items else 0, int(None in items), element.oid)
    bounds = struct.pack("!ii", len(items), 1) if items else b""
    return head + bounds + b"".join(b"\xff\xff\xff\xff" if one is None else struct.pack("!i", len(one)) + one for one in items)


def _quoted(item: bytes | None) -> bytes:
    if item is None:
        return b"NULL"
    return b'"' + item.replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'
