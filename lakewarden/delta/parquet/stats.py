"""A data file's statistics, as Delta keeps them: JSON by which readers, and our own flush, skip whole files.

They must never exclude a row that is there. So: no bounds where JSON or the order of another reader could disagree (NaN,
infinities, moments beyond the calendar, booleans, binary), and long texts are cut with the upper bound rounded up.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

# The lowest and the highest value of a column, computed from its rows or taken from a Parquet footer, which costs a tenth.

_FLOATING = frozenset({pa.float32().id, pa.float64().id})
_TEMPORAL = frozenset({pa.date32().id, pa.timestamp("us").id})
_BOXED = frozenset({pa.string().id, pa.decimal128(1).id})
"""Types of which Parquet holds an end as bytes."""

Value: TypeAlias = int | float | str | date | datetime | Decimal
"""As statistics have it; moments are in UTC."""

Bounds: TypeAlias = tuple[Sequence[Value | None], Sequence[Value | None]]
"""The lowest and the highest value of a column in each file, None where that is unknown."""


class Ends(NamedTuple):
    """The lowest and the highest value, in Python's type.

    A date is its day since 1970, a timestamp its microsecond: Python has no moments beyond the year 9999.
    """

    low: Any
    high: Any


class ColumnFacts(NamedTuple):
    """What is known of a column's values. `ends` and `nulls` (how many are NULL) are None where they are unknown."""

    name: str
    type: pa.DataType
    ends: Ends | None
    nulls: int | None


def of_rows(column: pa.ChunkedArray[Any]) -> Ends | None:
    """None where all values are NULL, and where one is NaN: readers disagree on whether it is the greatest value or none."""
    kind = column.type
    if column.null_count == len(column) or (kind.id in _FLOATING and pc.any(pc.is_nan(column)).as_py()):
        return None
    ends: Any = pc.min_max(column)
    if kind.id in _TEMPORAL:
        return Ends(ends["min"].value, ends["max"].value)
    return Ends(ends["min"].as_py(), ends["max"].as_py())


def of_written(rows: pa.Table, file: pq.FileMetaData) -> list[ColumnFacts]:
    """What is known of the columns of a file that holds exactly these rows."""
    # of floating numbers and of long texts, the footer says nothing
    return [
        one if one.ends else one._replace(ends=of_rows(column), nulls=column.null_count)
        for one, column in zip(of_file(file, rows.schema), rows.columns, strict=True)
    ]


def of_file(file: pq.FileMetaData, schema: pa.Schema) -> list[ColumnFacts]:
    """What a file's footer tells of its columns, which are those of `schema`."""
    groups = [file.row_group(number) for number in range(file.num_row_groups)]
    kinds = zip(schema.names, schema.types, strict=True)
    return [_facts([group.column(at) for group in groups], name, kind) for at, (name, kind) in enumerate(kinds)]


def _facts(chunks: Sequence[pq.ColumnChunkMetaData], name: str, kind: pa.DataType) -> ColumnFacts:
    nulls, found = 0, []
    for chunk in chunks:
        statistics = chunk.statistics
        if statistics is None or (count := statistics.null_count) is None:  # values are long, or the writer was set to write none
            return ColumnFacts(name, kind, None, None)
        nulls += count
        if count < chunk.num_values:
            found.append(_ends(statistics, kind))
    known = [ends for ends in found if ends is not None]
    return ColumnFacts(name, kind, _widest(known) if known and len(known) == len(found) else None, nulls)


def _widest(found: Sequence[Ends]) -> Ends:
    return found[0] if len(found) == 1 else Ends(min(one.low for one in found), max(one.high for one in found))


def _ends(statistics: pq.Statistics, kind: pa.DataType) -> Ends | None:
    """None where Parquet has none, as for types without an order; and where there may be a NaN, which it does not tell."""
    if kind.id in _FLOATING or not statistics.has_min_max:
        return None
    return Ends(statistics.min, statistics.max) if kind.id in _BOXED else Ends(statistics.min_raw, statistics.max_raw)


_TEXT_LENGTH = 64
"""Characters of a text bound: Spark's 32 would cut UUIDs, which are 36 long and often keys."""

_HIGHEST = "\U0010ffff"
_FIRST_DAY = date(1970, 1, 1)
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  # in UTC; without a zone its text has none, and the Z is ours

_Bounds = tuple[str, str] | None
"""Lower and upper bound as JSON text; None where there is none to give."""

_quoted = json.JSONEncoder(ensure_ascii=False).encode
_name = lru_cache(maxsize=4096)(_quoted)


def stats_text(rows: int, columns: Iterable[ColumnFacts]) -> str:
    """The statistics of a file of this many rows with these columns."""
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
