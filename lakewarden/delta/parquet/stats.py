"""A data file's statistics, as Delta keeps them: JSON by which readers, and our own flush, skip whole files.

They must never exclude a row that is there. So: no bounds where JSON or the order of another reader could disagree (NaN,
infinities, moments beyond the calendar, booleans, binary), and long texts are cut with the upper bound rounded up.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any

import pyarrow as pa

from lakewarden.delta.parquet.column_ends import ColumnFacts

_TEXT_LENGTH = 64
"""Characters of a text bound: Spark's 32 would cut UUIDs, which are 36 long and often keys."""

_HIGHEST = "\U0010ffff"
_FIRST_DAY = date(1970, 1, 1)
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  # in UTC; without a zone its text has none, and the Z is ours

_Bounds = tuple[str, str] | None
"""Lower and upper bound as JSON text; None where there is none to give."""

_quoted = json.JSONEncoder(ensure_ascii=False).encode


def stats_text(rows: int, columns: Iterable[ColumnFacts]) -> str:
    """The statistics of a file of so many rows with these columns."""
    low, high, nulls = [], [], []
    for name, type_, ends, null_count in columns:
        quoted = _name(name)
        if null_count is not None:
            nulls.append(f"{quoted}:{null_count}")
        bounds_of = _KINDS.get(type_.id)
        if ends and bounds_of and (bounds := bounds_of(*ends)):
            low.append(f"{quoted}:{bounds[0]}")
            high.append(f"{quoted}:{bounds[1]}")
    return (
        f'{{"numRecords":{rows},"minValues":{{{",".join(low)}}},"maxValues":{{{",".join(high)}}},'
        f'"nullCount":{{{",".join(nulls)}}}}}'
    )


@lru_cache(maxsize=4096)
def _name(column: str) -> str:
    return _quoted(column)


def _whole(low: int, high: int) -> _Bounds:
    return str(low), str(high)


def _decimal(low: Decimal, high: Decimal) -> _Bounds:
    # all digits, never an exponent: readers that take numbers as decimals get them exactly
    return f"{low:f}", f"{high:f}"


def _float(low: float, high: float) -> _Bounds:
    if math.isinf(low) or math.isinf(high):
        return None
    # readers disagree on whether -0.0 is below 0.0
    return repr(low or -0.0), repr(high or 0.0)


def _text(low: str, high: str) -> _Bounds:
    if len(high) > _TEXT_LENGTH:
        if high[_TEXT_LENGTH] == _HIGHEST:
            return None  # nothing of the same length is above it
        high = high[:_TEXT_LENGTH] + _HIGHEST
    return _quoted(low[:_TEXT_LENGTH]), _quoted(high)


def _date(low: int, high: int) -> _Bounds:
    return _iso(low, high, lambda days: (_FIRST_DAY + timedelta(days=days)).isoformat())


def _timestamp(low: int, high: int) -> _Bounds:
    return _iso(low, high, lambda micros: f"{(_EPOCH + timedelta(microseconds=micros)).isoformat(timespec='microseconds')}Z")


def _iso(low: int, high: int, render: Callable[[int], str]) -> _Bounds:
    try:
        return f'"{render(low)}"', f'"{render(high)}"'
    except OverflowError:
        return None  # beyond the years 1 to 9999


_KINDS: dict[int, Callable[[Any, Any], _Bounds]] = {
    pa.int16().id: _whole,
    pa.int32().id: _whole,
    pa.int64().id: _whole,
    pa.float32().id: _float,
    pa.float64().id: _float,
    pa.decimal128(1).id: _decimal,
    pa.string().id: _text,
    pa.date32().id: _date,
    pa.timestamp("us").id: _timestamp,
}
"""By the id of the Arrow type. Booleans and binary have no bounds."""
