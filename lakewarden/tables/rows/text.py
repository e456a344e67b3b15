"""Values of columns that came as text: in a CSV file, in JSON, or as people write them in a command or an address."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.base import exact_json
from lakewarden.base.exact_json import JsonNumber
from lakewarden.base.json_values import NOT_FINITE
from lakewarden.catalog.column_types import ColumnType
from lakewarden.catalog.model import SchemaColumn
from lakewarden.errors import InvalidArgument
from lakewarden.tables.rows.columns import Unfit, from_array, from_values

_AS_TEXT = frozenset({"TEXT", "UUID", "JSON", "FILE", "TIME"})
"""`from_array` reads them from text."""


def from_text(type: ColumnType, values: pa.Array[Any]) -> pa.Array[Any]:
    """Raises Unfit: a value is not written as one of the type."""
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


def from_bytes(type: ColumnType, values: Sequence[object]) -> pa.Array[Any]:
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


def _floating(type: ColumnType, values: pa.Array[Any]) -> pa.Array[Any]:
    """In DOUBLE, which `from_array` narrows. Arrow reads what is out of range as an infinity, or as zero."""
    found = values.cast(pa.float64())
    ends: Any = pc.min_max(pc.abs(found))
    if ends["min"].as_py() == 0:
        _check_none(values.filter(pc.equal(found, pa.scalar(0.0))), "^[^eE]*[1-9]")
    if (ends["max"].as_py() or 0) >= (bound := _ALL_WHOLE[type.name]):
        _check_none(values.filter(pc.is_inf(found)), "^[^fF]*$")  # no "inf"
        large = values.filter(pc.greater_equal(pc.abs(found), pa.scalar(bound)))
        texts: list[Any] = large.to_pylist()  # none is NULL
        if not all(_keeps(type, text) for text in texts if text.lstrip("+-").isdigit()):
            raise pa.ArrowInvalid("the column does not have this whole number")
    return found


_ALL_WHOLE = {"FLOAT": float(1 << 24), "DOUBLE": float(1 << 53)}
"""Up to here, they have every whole number. One with a point is the nearest that there is, as through every door."""


def _check_none(values: pa.Array[Any], form: str) -> None:
    if pc.any(pc.match_substring_regex(values, form)).as_py():
        raise pa.ArrowInvalid("out of range")


def _keeps(type: ColumnType, whole: str) -> bool:
    """Whether the column has this whole number, or writes it so."""
    narrow = pa.scalar(float(whole), type.arrow).as_py()
    return int(whole) == narrow or (type.name == "DOUBLE" and JsonNumber(whole).is_double)


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


# Reads the values of a column as JSON has them (`exact_json`), whatever they came in: a file, a message, a request.
#
# What `sql --format json` prints can be read back: bytes are base64, NaN and the infinities texts, moments ISO 8601.


def from_json(type: ColumnType, values: Sequence[object]) -> pa.Array[Any]:
    """A number for DOUBLE is the nearest one there is; for any other type it is exact, or does not fit.

    Raises:
        Unfit: a value does not fit the type; names the first such value.
    """
    return _FROM_JSON.get(type.name, from_values)(type, values)


def floating(value: object) -> object:
    """A value for FLOAT or DOUBLE. A number out of the range of 64 bits stays one, which `from_values` refuses."""
    if isinstance(value, JsonNumber):
        return value if (found := value.nearest) is None else found
    return NOT_FINITE.get(value, value) if isinstance(value, str) else value


def documents(values: Sequence[object]) -> pa.Array[Any]:
    """Each value as its text, for a column of JSON; a text is one in quotes. Raises as `from_json`."""
    found: list[str | None] = []
    for row, value in enumerate(values):
        try:
            text = None if value is None else exact_json.encode(value)
            found.append(text and text.encode().decode())  # half of a surrogate pair is a ValueError
        except (ValueError, TypeError, RecursionError) as error:
            raise Unfit(row, value) from error
    return pa.array(found, pa.string())


def _document(type: ColumnType, values: Sequence[object]) -> pa.Array[Any]:
    """Text is the text of a value, as in a write; numbers and truth values, which a write does not take, are themselves."""
    return from_values(type, [_text(value) if isinstance(value, _SCALARS) else value for value in values])


_SCALARS = (bool, int, float, Decimal)


def _text(value: object) -> object:
    try:
        return exact_json.encode(value)
    except ValueError:  # NaN
        return value


def _floating_json(type: ColumnType, values: Sequence[object]) -> pa.Array[Any]:
    return from_values(type, list(map(floating, values)))


_FROM_JSON: dict[str, Callable[[ColumnType, Sequence[object]], pa.Array[Any]]] = {
    "JSON": _document,
    "FLOAT": _floating_json,
    "DOUBLE": _floating_json,
    "BYTES": from_bytes,
}


# Values as people write them in a command or an address: text, in the type of its column.
def value_of(column: SchemaColumn, text: str) -> object:
    """As a file of CSV has it, but for bytes, which are hexadecimal digits.

    Raises:
        InvalidArgument: it is no value of the column's type.
    """
    try:
        if column.type.name == "BYTES":
            return bytes.fromhex(text)
        return from_text(column.type, pa.array([text]))[0].as_py()
    except (Unfit, ValueError) as error:
        raise InvalidArgument(f"column {column.name}: {text!r} is not a valid {column.type}") from error
