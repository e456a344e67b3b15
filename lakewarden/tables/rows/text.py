"""Reads the values of a CSV file, which are all text.

What `sql --format json` prints can be read back: bytes are base64, moments ISO 8601, in UTC where they name no zone.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.catalog.column_types import ColumnType
from lakewarden.tables.rows.columns import Unfit, from_array

_AS_TEXT = frozenset({"TEXT", "UUID", "JSON", "FILE", "TIME"})
"""`from_array` reads them from text."""


def from_text(type: ColumnType, values: pa.Array[Any]) -> pa.Array[Any]:
    """Raises:
    Unfit: a value is not written as one of the type.
    """
    if type.name in _AS_TEXT:
        return from_array(type, values)
    if type.name == "BYTES":
        return from_bytes(type, values.to_pylist())
    trimmed = pc.utf8_trim_whitespace(values)
    try:
        return from_array(type, _READ.get(type.name, _plain)(type, trimmed))
    except pa.ArrowInvalid:
        if type.name in ("DATE", "TIMESTAMP", "DECIMAL"):
            return from_array(type, trimmed)  # one by one, which takes more forms
        raise Unfit(0, values[0].as_py()) from None


def from_bytes(type: ColumnType, values: list[object]) -> pa.Array[Any]:
    """Base64. Raises as `from_text`."""
    found: list[bytes | None] = []
    for row, value in enumerate(values):
        try:
            found.append(None if value is None else base64.b64decode(cast("str", value), validate=True))
        except (binascii.Error, ValueError, TypeError) as error:
            raise Unfit(row, value) from error
    return pa.array(found, type.arrow)


def _plain(type: ColumnType, values: pa.Array[Any]) -> pa.Array[Any]:
    return values.cast(type.arrow)


def _whole(type: ColumnType, values: pa.Array[Any]) -> pa.Array[Any]:
    """Without Arrow's hexadecimal numbers."""
    if pc.any(pc.match_substring(values, "x", ignore_case=True)).as_py():
        raise pa.ArrowInvalid("hexadecimal")
    return values.cast(type.arrow)


def _floating(_type: ColumnType, values: pa.Array[Any]) -> pa.Array[Any]:
    """In DOUBLE, which `from_array` narrows. Arrow reads what is out of range as an infinity."""
    found = values.cast(pa.float64())
    endless = pc.is_inf(found)
    if pc.any(endless).as_py() and not pc.all(pc.match_substring(values.filter(endless), "inf", ignore_case=True)).as_py():
        raise pa.ArrowInvalid("out of range")
    return found


def _moment(type: ColumnType, values: pa.Array[Any]) -> pa.Array[Any]:
    try:
        return values.cast(pa.timestamp("us")).cast(type.arrow)
    except pa.ArrowInvalid:
        return values.cast(type.arrow)  # all name a zone


_READ: dict[str, Callable[[ColumnType, pa.Array[Any]], pa.Array[Any]]] = {
    "SMALLINT": _whole,
    "INT": _whole,
    "BIGINT": _whole,
    "FLOAT": _floating,
    "DOUBLE": _floating,
    "TIMESTAMP": _moment,
}
