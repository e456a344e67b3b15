"""Converts values to JSON, as `sql --format json` prints them and topics carry them."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

import pyarrow as pa

_MICROSECOND = timedelta(microseconds=1)

NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
"""What JSON has no numbers for, by the text that stands for it."""

Json = str | int | float | bool | None | list["Json"] | dict[str, "Json"]


def json_rows(rows: Iterable[Mapping[str, object]]) -> Iterator[dict[str, Json]]:
    """Every row as an object."""
    return map(json_row, rows)


def json_row(row: Mapping[str, object]) -> dict[str, Json]:
    return {name: _value(value) for name, value in row.items()}


def _value(value: object) -> Json:
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
            return moment.isoformat(
                timespec="nanoseconds" if getattr(value, "nanosecond", 0) else "microseconds"
            )  # pandas has them
        case timedelta():
            return f"PT{_seconds(value // _MICROSECOND * 1000 + getattr(value, 'nanoseconds', 0))}S"
        case date() | time():
            return value.isoformat()
        case _:
            return f"P{value.months}M{value.days}DT{_seconds(value.nanoseconds)}S"


def _seconds(nanoseconds: int) -> str:
    """Without zeros at the end."""
    whole, rest = divmod(abs(nanoseconds), 1_000_000_000)
    return f"{'-' if nanoseconds < 0 else ''}{whole}{f'.{rest:09}'.rstrip('0') if rest else ''}"


def _odd(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"
