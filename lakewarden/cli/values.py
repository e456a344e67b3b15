"""A query's values as JSON has them (the JSON of `sql`)."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakewarden.cli.output import Cell

if TYPE_CHECKING:
    from lakewarden.sql.results import Rows

_WHOLE = ("HUGEINT", "UHUGEINT")
"""DuckDB's whole numbers of 128 bits, which Arrow carries as DECIMAL."""


def json_rows(rows: Rows) -> Iterator[dict[str, Cell]]:
    """Every row as an object."""
    columns = [_values(column, kind) for column, kind in zip(rows.table.columns, rows.types, strict=True)]
    for values in zip(*columns, strict=True):
        yield dict(zip(rows.columns, values, strict=True))


def _values(column: pa.ChunkedArray[Any], type: str) -> list[Cell]:
    try:
        values = column.to_pylist()
    except (ValueError, OverflowError):  # a moment that Python's calendar has not
        values = [_beyond(scalar) for chunk in column.chunks for scalar in chunk]
    if type in _WHOLE:
        return [None if value is None else int(value) for value in values]
    return [_value(value) for value in values]


def _beyond(scalar: Any) -> object:
    try:
        return scalar.as_py()
    except (ValueError, OverflowError):
        return str(scalar.cast(pa.string()).as_py()) if pa.types.is_temporal(scalar.type) else "out of range"


def _value(value: object) -> Cell:
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else _odd(value)
        case bytes():
            return base64.b64encode(value).decode()
        case datetime() | date() | time() | timedelta() | pa.MonthDayNano():
            return _time(value)
        case Mapping():
            return {str(key): _value(one) for key, one in value.items()}
        case list() | tuple():
            return [_value(one) for one in value]
        case _:
            return format(value, "f") if isinstance(value, Decimal) else str(value)


def _time(value: datetime | date | time | timedelta | pa.MonthDayNano) -> str:
    match value:
        case datetime():
            moment = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
            return moment.isoformat(timespec="microseconds")
        case timedelta():
            return f"PT{value.total_seconds():g}S"
        case date() | time():
            return value.isoformat()
        case _:
            return f"P{value.months}M{value.days}DT{value.nanoseconds / 1e9:g}S"


def _odd(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"
