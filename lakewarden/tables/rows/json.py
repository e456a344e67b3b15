"""Reads the values of a column as JSON has them (`exact_json`), whatever they came in: a file, a message, a request.

What `sql --format json` prints can be read back: bytes are base64, NaN and the infinities texts, moments ISO 8601.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from lakewarden.base import exact_json
from lakewarden.base.exact_json import JsonNumber
from lakewarden.catalog.column_types import ColumnType
from lakewarden.tables.rows.columns import Unfit, from_values
from lakewarden.tables.rows.text import from_bytes

_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def from_json(type: ColumnType, values: Sequence[object]) -> pa.Array[Any]:
    """A number for DOUBLE is the nearest one there is; for any other type it is exact, or does not fit.

    Raises:
        Unfit: a value does not fit the type; names the first such value.
    """
    return _CONVERT.get(type.name, from_values)(type, values)


def floating(value: object) -> object:
    """A value for FLOAT or DOUBLE. A number out of the range of 64 bits stays one, which `from_values` refuses."""
    if isinstance(value, JsonNumber):
        return value if (found := value.nearest) is None else found
    return _NOT_FINITE.get(value, value) if isinstance(value, str) else value


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


def _floating(type: ColumnType, values: Sequence[object]) -> pa.Array[Any]:
    return from_values(type, list(map(floating, values)))


def _bytes(type: ColumnType, values: Sequence[object]) -> pa.Array[Any]:
    return from_bytes(type, list(values))


_CONVERT: dict[str, Callable[[ColumnType, Sequence[object]], pa.Array[Any]]] = {
    "JSON": _document,
    "FLOAT": _floating,
    "DOUBLE": _floating,
    "BYTES": _bytes,
}
