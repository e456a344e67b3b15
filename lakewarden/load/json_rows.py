"""Parses blocks of JSON lines: an object a line. A key that an object does not have takes the column's default; null is NULL."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, cast

import msgspec
import pyarrow as pa

from lakewarden.catalog.model import SchemaColumn, TableSchema
from lakewarden.catalog.types import ColumnType
from lakewarden.load.fitting import Given, text_column
from lakewarden.rows.columns import from_values
from lakewarden.rows.text import from_bytes

_NUMBERS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
"""As `sql --format json` prints what JSON has no number for."""


def parse_json(schema: TableSchema, data: bytes, extra: Sequence[str]) -> Given:
    """The rows of a block.

    Args:
        extra: a column that the table does not have, and that is wanted as text.
    """
    exact = any(column.type.name == "DECIMAL" for column in schema.columns)
    decoder: msgspec.json.Decoder[object] = msgspec.json.Decoder(float_hook=Decimal if exact else None)
    broken: dict[int, str] = {}
    known = {*schema.names, *extra}
    rows = []
    for number, record in enumerate(_records(decoder, data)):
        if (why := _wrong(record, known)) is None:
            rows.append(cast("Mapping[str, object]", record))
        else:
            broken[number] = why
    given = Given(len(rows), broken)
    for column in (*schema.columns, *map(text_column, extra)):
        _take(given, column, rows)
    return given


def _records(decoder: msgspec.json.Decoder[object], data: bytes) -> Iterator[object]:
    """The value of each line that is not empty; the error of one that has none."""
    try:
        yield from decoder.decode_lines(data)
    except msgspec.DecodeError:
        yield from (_record(decoder, line) for line in data.split(b"\n") if line.strip())


def _record(decoder: msgspec.json.Decoder[object], line: bytes) -> object:
    try:
        return decoder.decode(line)
    except (msgspec.DecodeError, RecursionError) as error:
        return error


def _wrong(record: object, known: set[str]) -> str | None:
    if isinstance(record, Exception):
        return f"not JSON: {record}"
    if not isinstance(record, dict):
        return f"a JSON object is expected, not {record.__class__.__name__}"
    return None if known >= record.keys() else f"unknown column {min(record.keys() - known)!r}"


def _take(given: Given, column: SchemaColumn, rows: Sequence[Mapping[str, object]]) -> None:
    absent = [column.name not in row for row in rows]
    if all(absent):
        return
    if any(absent):
        given.absent[column.name] = pa.array(absent)
    given.take(column, [row.get(column.name) for row in rows], _CONVERT.get(column.type.name, from_values))


def _json(type: ColumnType, values: Sequence[object]) -> pa.Array[Any]:
    """Text is the text of a value, as in a write; numbers and truth values, which a write does not take, are themselves."""
    return from_values(type, [json.dumps(value) if isinstance(value, (bool, int, float)) else value for value in values])


def _floating(type: ColumnType, values: Sequence[object]) -> pa.Array[Any]:
    return from_values(type, [_NUMBERS.get(value, value) if isinstance(value, str) else value for value in values])


def _bytes(type: ColumnType, values: Sequence[object]) -> pa.Array[Any]:
    return from_bytes(type, list(values))


_CONVERT: dict[str, Callable[[ColumnType, Sequence[object]], pa.Array[Any]]] = {
    "JSON": _json,
    "FLOAT": _floating,
    "DOUBLE": _floating,
    "BYTES": _bytes,
}
