"""Reads what statistics say in Delta's JSON: the numbers of rows, and the lowest and highest values of a column."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from functools import lru_cache
from typing import Any, cast

import msgspec

from lakewarden.delta.parquet.column_ends import Bounds, Value
from lakewarden.delta.parquet.schema import live_columns
from lakewarden.delta.partitions import moment_of


class SaidEnds(msgspec.Struct, frozen=True):
    """Of a file's statistics, its number of rows, and its lowest and highest values by column."""

    rows: Any = msgspec.field(name="numRecords", default=None)
    lowest: Any = msgspec.field(name="minValues", default=None)
    highest: Any = msgspec.field(name="maxValues", default=None)


_NOTHING = SaidEnds()
_exactly = msgspec.json.Decoder(SaidEnds, float_hook=Decimal).decode


def said_ends(text: str | None) -> SaidEnds:
    """What cannot be read says nothing."""
    if text is None:
        return _NOTHING
    try:
        return _exactly(text)
    except (msgspec.DecodeError, UnicodeError, ArithmeticError, RecursionError):
        return _NOTHING


def whole(said: object) -> int | None:
    """A number that was said; None for what is no whole number of 64 bits."""
    return said if type(said) is int and -(2**63) <= said < 2**63 else None


def end_of(ends: object, column: str) -> object:
    return ends.get(column) if isinstance(ends, dict) else None


def bounds_of(schema_json: str, column: str, files: Sequence[SaidEnds]) -> Bounds | None:
    """The bounds of a column in each file; None where no file has any, or one has another form than readers know."""
    read = _readers(schema_json).get(column)
    if read is None:
        return None
    try:
        return _read(read, column, (each.lowest for each in files)), _read(read, column, (each.highest for each in files))
    except (ValueError, TypeError, ArithmeticError):  # another writer's form: nothing is excluded by it
        return None


def _read(read: Callable[[Any], Value], column: str, ends: Iterable[object]) -> list[Value | None]:
    said = (end_of(each, column) for each in ends)
    return [None if value is None else read(value) for value in said]


@lru_cache(maxsize=1024)
def _readers(schema_json: str) -> dict[str, Callable[[Any], Value] | None]:
    """How the bounds of each column are read; None for a column without."""
    return {
        column.name: _exact if column.type.startswith("decimal(") else _READERS.get(column.type)
        for column in live_columns(schema_json)
    }


def _whole(value: object) -> int:
    if type(value) is not int:
        raise ValueError(f"{value!r} is no whole number")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no text")
    return value


def _exact(value: object) -> Decimal:
    return Decimal(cast("Any", value))


_READERS: Mapping[str, Callable[[Any], Value]] = {
    "short": _whole,
    "integer": _whole,
    "long": _whole,
    "string": _text,
    "date": date.fromisoformat,
    "timestamp": moment_of,
}
