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
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

_TEXT_LENGTH = 64
"""Characters of a text bound: Spark's 32 would cut UUIDs, which are 36 long and often keys."""

_HIGHEST = "\U0010ffff"
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  # in UTC; without a zone its text has none, and the Z is ours

_Bounds = tuple[str, str] | None
"""Lower and upper bound as JSON text; None where there is none to give."""


def stats_json(rows: pa.Table) -> str:
    """The statistics of a file that holds exactly these rows."""
    columns = zip(rows.column_names, rows.columns, strict=True)
    return stats_text(rows.num_rows, (ColumnFacts(name, column, column.null_count) for name, column in columns))


class ColumnFacts(NamedTuple):
    """Values of a column among which are its lowest and its highest, none where these are not known; how many of all are NULL."""

    name: str
    values: pa.ChunkedArray[Any]
    nulls: int | None


def stats_text(rows: int, columns: Iterable[ColumnFacts]) -> str:
    """The statistics of a file of so many rows with these columns."""
    low, high, nulls = [], [], []
    for name, values, null_count in columns:
        quoted = json.dumps(name)
        if null_count is not None:
            nulls.append(f"{quoted}:{null_count}")
        if bounds := _bounds(values):
            low.append(f"{quoted}:{bounds[0]}")
            high.append(f"{quoted}:{bounds[1]}")
    return (
        f'{{"numRecords":{rows},"minValues":{{{",".join(low)}}},"maxValues":{{{",".join(high)}}},'
        f'"nullCount":{{{",".join(nulls)}}}}}'
    )


def _bounds(column: pa.ChunkedArray[Any]) -> _Bounds:
    if column.null_count == len(column):
        return None
    for is_kind, bounds in _KINDS:
        if is_kind(column.type):
            return bounds(column)
    return None


def _ends(column: pa.ChunkedArray[Any]) -> tuple[Any, Any]:
    ends = pc.min_max(column)
    return ends["min"], ends["max"]


def _whole(column: pa.ChunkedArray[Any]) -> _Bounds:
    low, high = _ends(column)
    return str(low.as_py()), str(high.as_py())


def _decimal(column: pa.ChunkedArray[Any]) -> _Bounds:
    # all digits, never an exponent: readers that take numbers as decimals get them exactly
    low, high = (end.as_py() for end in _ends(column))
    return _digits(low), _digits(high)


def _digits(value: Decimal) -> str:
    return f"{value:f}"


def _float(column: pa.ChunkedArray[Any]) -> _Bounds:
    if pc.any(pc.is_nan(column)).as_py():
        return None  # readers disagree on whether NaN is the greatest value or none
    low, high = (end.as_py() for end in _ends(column))
    if math.isinf(low) or math.isinf(high):
        return None
    # readers disagree on whether -0.0 is below 0.0
    return repr(low or -0.0), repr(high or 0.0)


def _text(column: pa.ChunkedArray[Any]) -> _Bounds:
    low, high = (end.as_py() for end in _ends(column))
    if len(high) > _TEXT_LENGTH:
        if high[_TEXT_LENGTH] == _HIGHEST:
            return None  # nothing of the same length is above it
        high = high[:_TEXT_LENGTH] + _HIGHEST
    return json.dumps(low[:_TEXT_LENGTH], ensure_ascii=False), json.dumps(high, ensure_ascii=False)


def _date(column: pa.ChunkedArray[Any]) -> _Bounds:
    days = [end.cast(pa.int32()).as_py() for end in _ends(column)]
    return _iso(days, lambda value: (date(1970, 1, 1) + timedelta(days=value)).isoformat())


def _timestamp(column: pa.ChunkedArray[Any]) -> _Bounds:
    micros = [end.value for end in _ends(column)]
    return _iso(micros, lambda value: f"{(_EPOCH + timedelta(microseconds=value)).isoformat(timespec='microseconds')}Z")


def _iso(values: list[int], render: Callable[[int], str]) -> _Bounds:
    try:
        low, high = (f'"{render(value)}"' for value in values)
    except OverflowError:
        return None  # beyond the years 1 to 9999
    return low, high


_KINDS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.ChunkedArray[Any]], _Bounds]], ...] = (
    (pa.types.is_integer, _whole),
    (pa.types.is_string, _text),
    (pa.types.is_timestamp, _timestamp),
    (pa.types.is_date, _date),
    (pa.types.is_decimal, _decimal),
    (pa.types.is_floating, _float),
)
