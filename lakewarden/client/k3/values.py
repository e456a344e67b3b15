"""Rows of K3's requests, as JSON has them, in the form that Lakewarden's own rows have; and values of answers."""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal

from sqlglot import exp

from lakewarden.base import exact_json
from lakewarden.base.clock import from_micros
from lakewarden.base.json_values import NOT_FINITE, Json
from lakewarden.catalog.column_values import convert
from lakewarden.catalog.model import SchemaColumn, TableSchema
from lakewarden.errors import ConstraintViolation, InvalidArgument
from lakewarden.tables.rows.columns import unfit
from lakewarden.tables.rows.text import floating

Row = Mapping[str, object]

_EXACT = 1 << 53
"""JSON readers keep whole numbers exact up to here; those beyond go as text."""
_DIGITS = re.compile("-?[0-9]+")
_CAST = frozenset({"DECIMAL", "FLOAT", "DOUBLE"})


def native_rows(schema: TableSchema, rows: Sequence[Row | str]) -> list[dict[str, object]]:
    """Rows as dicts, or as the text of JSON objects.

    Raises:
        InvalidArgument: a row is not an object, or has a column that the table does not have.
        ConstraintViolation: a value has no form that its column takes.
    """
    columns = {column.name: column for column in schema.columns}
    as_they_are = {name: _AS_THEY_ARE.get(column.type.name, ()) for name, column in columns.items()}
    return [
        {
            name: value
            if value.__class__ in as_they_are.get(name, ())
            else native_value(columns.get(name) or column_of(schema, name), value)
            for name, value in (row if row.__class__ is dict else _object(row)).items()
        }
        for row in rows
    ]


def column_of(schema: TableSchema, name: str) -> SchemaColumn:
    """Raises InvalidArgument: the table has no such column."""
    column = schema.column(name)
    if column is None:
        raise InvalidArgument(f"unknown column {name!r}; the columns are {', '.join(schema.names)}")
    return column


def native_value(column: SchemaColumn, value: object) -> object:
    """Raises ConstraintViolation: the value has no form that the column takes. Ranges are checked where it is written."""
    read = _READERS.get(column.type.name)
    if value is None or read is None:
        return value
    try:
        return read(value)
    except (ValueError, OverflowError) as error:
        raise ConstraintViolation(f"column {column.name!r}: {value!r} is no {column.type} ({error})") from error


def literal(column: SchemaColumn, value: object) -> exp.Expr:
    """A value of a request as a literal of SQL; raises as `native_value`."""
    return native_literal(column, native_value(column, value))


def native_literal(column: SchemaColumn, found: object) -> exp.Expr:
    """The same of what `native_value` returned. A decimal number is one of the column's own type: DuckDB would give those of
    several rows one type, and round them to it.
    """
    if column.type.name in _CAST and found is not None:
        try:
            return exp.cast(exp.Literal.string(str(convert(column.type, found))), str(column.type))
        except ValueError as error:
            raise unfit(column.name, column.type, 0, found) from error
    match found:
        case None:
            return exp.null()
        case bool():
            return exp.Boolean(this=found)
        case int() | float():
            return exp.Literal.number(found) if found >= 0 else exp.Neg(this=exp.Literal.number(-found))
        case bytes():
            return exp.func("FROM_HEX", exp.Literal.string(found.hex()))
        case datetime():
            return exp.cast(exp.Literal.string(found.isoformat()), "TIMESTAMPTZ")
        case _:
            return exp.Literal.string(found if isinstance(found, str) else exact_json.encode(found))


def exact_row(row: Mapping[str, Json]) -> dict[str, Json]:
    """A row of an answer: whole numbers beyond 2^53 as text."""
    return {name: _exact(value) for name, value in row.items()}


def _exact(value: Json) -> Json:
    match value:
        case bool():
            return value
        case int():
            return value if -_EXACT <= value <= _EXACT else str(value)
        case list():
            return [_exact(one) for one in value]
        case dict():
            return exact_row(value)
        case _:
            return value


def _object(row: Row | str) -> Row:
    try:
        found = exact_json.decoded(row.encode()) if isinstance(row, str) else row
    except ValueError as error:
        raise InvalidArgument(f"a row is an object, or its text: {row!r} is no JSON ({error})") from error
    if not isinstance(found, Mapping):
        raise InvalidArgument(f"a row is an object, with a value by column, and {found!r} is not one")
    return found


def _whole(value: object) -> object:
    """`"128"` as 128: beyond 2^53 they have to be sent so."""
    if isinstance(value, exact_json.JsonNumber) and value.is_whole:
        return 0
    if isinstance(value, (float, Decimal)):  # a row of `insert` refuses it; as a literal of SQL, 1.0 would be a whole number
        raise ValueError("a whole number has no point")
    if not isinstance(value, str):
        return value
    if not _DIGITS.fullmatch(value):  # Python reads `1_000`, too
        raise ValueError("a whole number in text is digits, as in '128'")
    return int(value)


def _number(value: object) -> object:
    if isinstance(value, Decimal):
        return floating(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("JSON has no NaN and no infinity: they are the texts 'NaN', 'Infinity' and '-Infinity'")
    return NOT_FINITE.get(value, value) if isinstance(value, str) else value


def _bytes(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error as error:
        raise ValueError(f"bytes are sent as base64: {error}") from error


def _moment(value: object) -> object:
    """Microseconds since the epoch, as a number or text; or a date with time."""
    text = value.strip() if isinstance(value, str) else value
    if isinstance(text, str) and not _DIGITS.fullmatch(text):
        return text
    if isinstance(text, (float, Decimal, bool)):
        raise ValueError("a timestamp is whole microseconds since the epoch")
    return from_micros(int(text)) if isinstance(text, (str, int)) else text


def _document(value: object) -> object:
    """Any JSON value. A text is a string, but for one that begins as an object or a list does: that is the document itself."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        return value
    return exact_json.encode(value)


_READERS: dict[str, Callable[[object], object]] = {
    **dict.fromkeys(("SMALLINT", "INT", "BIGINT"), _whole),
    **dict.fromkeys(("FLOAT", "DOUBLE"), _number),
    "BYTES": _bytes,
    "TIMESTAMP": _moment,
    "JSON": _document,
}

_AS_THEY_ARE = {
    **dict.fromkeys(("SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE"), frozenset({int})),
    **dict.fromkeys(("TEXT", "UUID", "DATE", "BOOLEAN"), frozenset({str, bool})),
}
"""Classes of values that stay what they are: most of a body's, of tens of thousands."""
