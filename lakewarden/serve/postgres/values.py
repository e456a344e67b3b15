"""Values as the bytes that PostgreSQL's text and binary formats have for them, by whole columns."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.base.any_year import DAY_MICROS, INFINITE_DAY, INFINITE_MOMENT, day_text, moment_text
from lakewarden.base.json_values import json_row
from lakewarden.serve.postgres import kinds
from lakewarden.serve.postgres.kinds import FORMS, Kind
from lakewarden.serve.postgres.messages import MalformedMessage
from lakewarden.sql.results import any_time

# PostgreSQL counts days and moments from 2000-01-01, and has an infinity at each end of its numbers.
EPOCH_DAYS = (date(2000, 1, 1) - date(1970, 1, 1)).days
EPOCH_MICROS = EPOCH_DAYS * DAY_MICROS

INFINITE_DAYS: Mapping[int, str] = {(1 << 31) - 1: "infinity", -(1 << 31): "-infinity"}
"""Of the number of a date, its text."""
INFINITE_MICROS: Mapping[int, str] = {(1 << 63) - 1: "infinity", -(1 << 63): "-infinity"}
"""Likewise of a timestamp."""


# PostgreSQL's binary form of NUMERIC: digits to the base of 10,000.
_BASE_DIGITS = 4
_NEGATIVE = 0x4000
_NO_NUMBERS = {0xC000: "NaN", 0xD000: "Infinity", 0xF000: "-Infinity"}
"""Of a sign."""


def binary_numeric(value: Decimal) -> bytes:
    """Of a finite number."""
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int), "a column's number is finite"
    scale = max(-exponent, 0)
    text = "".join(map(str, digits)) + "0" * max(exponent, 0)
    whole, part = (text[:-scale], text[-scale:].rjust(scale, "0")) if scale else (text, "")
    whole = whole.lstrip("0")
    whole = whole.rjust(-(-len(whole) // _BASE_DIGITS) * _BASE_DIGITS, "0")
    part = part.ljust(-(-len(part) // _BASE_DIGITS) * _BASE_DIGITS, "0")
    both = whole + part
    groups = [int(both[at : at + _BASE_DIGITS]) for at in range(0, len(both), _BASE_DIGITS)]
    weight = len(whole) // _BASE_DIGITS - 1
    while groups and groups[0] == 0:
        groups.pop(0)
        weight -= 1
    while groups and groups[-1] == 0:
        groups.pop()
    head = struct.pack("!HhHH", len(groups), weight if groups else 0, _NEGATIVE if sign and groups else 0, scale)
    return head + struct.pack(f"!{len(groups)}H", *groups)


def numeric_of(data: bytes) -> Decimal:
    """Raises Malformed: it is not such a form."""
    if len(data) < 8:
        raise MalformedMessage("a NUMERIC in binary has eight bytes at least")
    number, weight, sign, scale = struct.unpack("!HhHH", data[:8])
    if len(data) != 8 + 2 * number or sign not in (0, _NEGATIVE, *_NO_NUMBERS):
        raise MalformedMessage("a NUMERIC in binary does not have the length that it says, or has an unknown sign")
    if sign in _NO_NUMBERS:
        return Decimal(_NO_NUMBERS[sign])
    groups = struct.unpack(f"!{number}H", data[8:])
    if any(group > 9999 for group in groups):
        raise MalformedMessage("a NUMERIC in binary has a digit above 9999")
    digits = "".join(f"{group:04d}" for group in groups) or "0"
    exponent = _BASE_DIGITS * (weight + 1 - number) if groups else 0
    filling = min(max(-exponent - scale, 0), len(digits) - len(digits.rstrip("0")), len(digits) - 1)  # the last group's zeros
    return Decimal((int(sign == _NEGATIVE), tuple(map(int, digits[: len(digits) - filling])), exponent + filling))


_BYTES = pa.large_binary()
_PYTHONS_DAYS = date.min.toordinal() - date(1970, 1, 1).toordinal(), date.max.toordinal() - date(1970, 1, 1).toordinal()
"""The days that Arrow writes as PostgreSQL does: it knows neither BC nor infinity."""


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
        return pa.array([_as_json(any_time(one)) if one.is_valid else None for one in values], pa.large_string())
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


def _dates(values: pa.Array[Any]) -> pa.Array[Any]:
    days = values.cast(pa.int32())
    if _within(days, *_PYTHONS_DAYS):
        return values.cast(pa.large_string())
    return pa.array([None if day is None else _with_era(day_text(day), "") for day in days.to_pylist()], pa.large_string())


def _moments(values: pa.Array[Any]) -> pa.Array[Any]:
    plain = values.cast(pa.timestamp("us", values.type.tz))
    micros = plain.cast(pa.int64())
    zone = "" if values.type.tz is None else "+00"
    first, last = _PYTHONS_DAYS
    if _within(micros, first * DAY_MICROS, (last + 1) * DAY_MICROS - 1):
        return pc.replace_substring(plain.cast(pa.large_string()), "Z", zone)
    found = [None if one is None else _with_era(moment_text(one, " "), zone) for one in micros.to_pylist()]
    return pa.array(found, pa.large_string())


def _within(numbers: pa.Array[Any], first: int, last: int) -> bool:
    ends: Any = pc.min_max(numbers)
    low, high = ends["min"].as_py(), ends["max"].as_py()
    return low is None or bool(first <= low and high <= last)


def _with_era(text: str, zone: str) -> str:
    """ISO's text of a day or moment as PostgreSQL writes it: the year 0 is 1 BC."""
    if text.endswith("infinity"):
        return text
    sign, year, rest = text.startswith("-"), *text.lstrip("-").partition("-")[::2]
    before_christ = sign or not int(year)
    return f"{int(year) + 1:04}-{rest}{zone} BC" if before_christ else f"{text}{zone}"


def _hexadecimal(values: pa.Array[Any]) -> pa.Array[Any]:
    return pa.array([None if one is None else "\\x" + one.hex() for one in values.to_pylist()], pa.large_string())


_TEXTS: Mapping[int, Callable[[pa.Array[Any]], pa.Array[Any]]] = {
    kinds.BOOL.oid: _flags,
    kinds.FLOAT4.oid: _floating,
    kinds.FLOAT8.oid: _floating,
    kinds.DATE.oid: _dates,
    kinds.TIMESTAMP.oid: _moments,
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
    return _packed(">i4")(_since_2000(values.cast(pa.int32()), EPOCH_DAYS, INFINITE_DAY, INFINITE_DAYS))


def _micros(values: pa.Array[Any]) -> pa.Array[Any]:
    plain = values.cast(pa.timestamp("us", values.type.tz)).cast(pa.int64())
    return _packed(">i8")(_since_2000(plain, EPOCH_MICROS, INFINITE_MOMENT, INFINITE_MICROS))


def _since_2000(numbers: pa.Array[Any], epoch: int, infinite: int, theirs: Mapping[int, str]) -> pa.Array[Any]:
    found: pa.Array[Any] = pc.subtract(numbers, pa.scalar(epoch, numbers.type))
    for ours, (end, _) in zip((infinite, -infinite), theirs.items(), strict=True):
        found = pc.if_else(pc.equal(numbers, pa.scalar(ours, numbers.type)), pa.scalar(end, numbers.type), found)
    return found


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
    **{oid: _packed(f">{form}") for oid, form in FORMS.items()},
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


# Rows of a result as DataRow messages, by whole columns: no Python for each row of the usual types.
_CHUNK_BYTES, _CHUNK_ROWS = 1 << 20, 10_000
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
