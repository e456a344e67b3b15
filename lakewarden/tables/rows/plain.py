"""Recognises a row of plain values that its table takes as they are. For one row, this costs a tenth of what Arrow's calls do.

`catalog.column_values.convert` decides what fits; a row that is not recognised here is checked by `tables.rows.validate`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from functools import lru_cache
from typing import Any

from lakewarden.base.any_year import DAY_MICROS
from lakewarden.catalog.column_values import INTEGER_BITS, check_json
from lakewarden.catalog.model import SchemaColumn, TableSchema
from lakewarden.tables.rows.intake import Rows

_LARGE = 1 << 16
"""A longer text or more bytes in one value is not recognised."""

Test = Callable[[Any], bool]


def plain_row(schema: TableSchema, rows: Rows) -> dict[str, object] | None:
    """Returns the only row of a call, by column name, if it needs no conversion and no default; None otherwise."""
    if rows.__class__ is not list or len(rows) != 1 or (row := rows[0]).__class__ is not dict:
        return None
    plain = _plain(schema)
    tests = plain.tests
    for name, value in row.items():
        if value is None:
            if name not in plain.nullable:
                return None
        elif (test := tests.get(name)) is None or not test(value):
            return None
    return dict(row) if plain.needed <= row.keys() else None


@dataclass(frozen=True)
class _Plain:
    tests: Mapping[str, Test]
    nullable: frozenset[str]
    needed: frozenset[str]
    """Columns that a row cannot leave out: they are NOT NULL or have a default."""


@lru_cache(maxsize=1024)
def _plain(schema: TableSchema) -> _Plain:
    columns = schema.columns
    tested = (column for column in columns if column.type.name in _TESTS and column.name not in schema.partition_by)
    return _Plain(
        {column.name: _test(column) for column in tested},
        frozenset(column.name for column in columns if column.nullable),
        frozenset(column.name for column in columns if not column.nullable or column.default is not None),
    )


def _test(column: SchemaColumn) -> Test:
    return _TESTS[column.type.name]


def _boolean(value: object) -> bool:
    return value.__class__ is bool


def _whole(bits: int) -> Test:
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    return lambda value: value.__class__ is int and low <= value <= high


def _double(value: object) -> bool:
    return value.__class__ is float


def _text(value: Any) -> bool:
    return value.__class__ is str and len(value) <= _LARGE and (value.isascii() or _is_unicode(value))


def _is_unicode(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:  # half a surrogate pair
        return False
    return True


def _bytes(value: Any) -> bool:
    return value.__class__ is bytes and len(value) <= _LARGE


def _date(value: object) -> bool:
    return value.__class__ is date


def _timestamp(value: Any) -> bool:
    return value.__class__ is datetime and 1 < value.year < 9999  # in the first and last year, a zone may lead out of the range


def _time(value: Any) -> bool:
    return value.__class__ is int and 0 <= value < DAY_MICROS


def _json(value: Any) -> bool:
    try:
        if not _text(value):
            return False
        check_json(value)
    except ValueError:
        return False
    return True


_TESTS: dict[str, Test] = {
    "BOOLEAN": _boolean,
    **{name: _whole(bits) for name, bits in INTEGER_BITS.items()},
    "DOUBLE": _double,
    "TEXT": _text,
    "BYTES": _bytes,
    "DATE": _date,
    "TIMESTAMP": _timestamp,
    "TIME": _time,
    "JSON": _json,
}
"""By type. The other types convert most values."""
