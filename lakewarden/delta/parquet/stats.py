"""A data file's statistics, as Delta keeps them: JSON by which readers, and our own flush, skip whole files; written, and read.

They must never exclude a row that is there. So: no bounds where JSON or the order of another reader could disagree (NaN,
infinities, moments beyond the calendar, booleans, binary), and long texts are cut with the upper bound rounded up.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias, cast

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakewarden.delta.parquet.schema import live_columns
from lakewarden.delta.partitions import moment_of

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


# What they say, read back: the numbers of rows, and the lowest and highest values of a column.
#
# Bounds are rounded outwards by what they may have gone through, or not used. Whose a bound is cannot be known: another program
# that restores a version, or compacts one, writes ours again as it has read them. So the type decides, by the worst that a known
# writer does to it:
#
# - DECIMAL: delta-rs writes DOUBLE, after a division and for some a step towards zero, and whole ones beyond 64 bits as the
#   last of 64 bits. Where it reads them, it cuts what is below the column's scale.
# - TIMESTAMP: Spark and delta-rs cut to milliseconds, the upper bound too. Spark writes the offset of its session's zone in
#   minutes; until 1972 there were zones whose offset had seconds.
# - DATE and TIMESTAMP before 15 October 1582: a file may be in the Julian calendar, and its statistics in ours.
# - TEXT: Delta before 4 cut to 32 units of UTF-16 and put U+FFFD behind, which is below all characters beyond 16 bits. Where a
#   cut went through a character, U+FFFD stands for it, too.
# - Whole numbers are exact. Numbers of FLOAT and DOUBLE are not used (NaN, -0.0), nor BOOLEAN and BYTES.

_DIGITS = Context(prec=100)
"""Enough for every sum and product here of numbers of 38 digits, so that none is rounded."""

_THROUGH_DOUBLE = _DIGITS.power(2, -49)
"""By which part of itself a number may differ: eight units of DOUBLE's last place, for what delta-rs calculates on the way."""

_LAST_WHOLE = Decimal(2**63)

_GREGORIAN = date(1582, 10, 15)
_WHOLE_MINUTES = datetime(1972, 2, 1, tzinfo=UTC)
_MILLISECOND, _MINUTE = timedelta(milliseconds=1), timedelta(minutes=1)
_CUT = "\ufffd"

_Kind = tuple[Callable[[Any], Value], Callable[[Any, int], Value | None]]
"""Reads a bound, and moves it down (-1) or up (1); None where nothing is known then."""


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


def whole_number(said: object) -> int | None:
    """A number that was said; None for what is not a whole number of 64 bits."""
    return said if type(said) is int and -(2**63) <= said < 2**63 else None


def end_of(ends: object, column: str) -> object:
    return ends.get(column) if isinstance(ends, dict) else None


def bounds_of(schema_json: str, column: str, files: Sequence[SaidEnds]) -> Bounds | None:
    """The bounds of a column in each file, rounded outwards; None where no file has any, where one has another form than readers
    know, and of a type whose bounds are not used."""
    kind = _kinds(schema_json).get(column)
    if kind is None:
        return None
    try:
        return _ends_of(kind, column, (each.lowest for each in files), -1), _ends_of(
            kind, column, (each.highest for each in files), 1
        )
    except (ValueError, TypeError, ArithmeticError):  # another writer's form: nothing is excluded by it
        return None


def _ends_of(kind: _Kind, column: str, said: Iterable[object], way: int) -> list[Value | None]:
    read, move = kind
    values = (end_of(each, column) for each in said)
    return [None if value is None else move(read(value), way) for value in values]


@lru_cache(maxsize=1024)
def _kinds(schema_json: str) -> dict[str, _Kind | None]:
    """How the bounds of each column are taken; None for a column without."""
    return {column.name: _kind_of(column.type) for column in live_columns(schema_json)}


def _kind_of(delta_type: str) -> _Kind | None:
    """`delta_type` is as Delta's schema names it, as `long` or `decimal(10,2)`."""
    return (_exact, _decimal_moved(delta_type)) if delta_type.startswith("decimal(") else _SAID_KINDS.get(delta_type)


def _said_whole(value: object) -> int:
    if type(value) is not int:
        raise ValueError(f"{value!r} is not a whole number")
    return value


def _said_text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not text")
    return value


def _exact(value: object) -> Decimal:
    return Decimal(cast("Any", value))


def _as_it_is(end: int, _: int) -> int:
    return end


def _decimal_moved(delta_type: str) -> Callable[[Decimal, int], Decimal | None]:
    unit = _DIGITS.scaleb(Decimal(1), -int(delta_type.rstrip(")").rpartition(",")[2]))

    def moved(end: Decimal, way: int) -> Decimal | None:
        error = _DIGITS.fma(end.copy_abs(), _THROUGH_DOUBLE, unit)
        if _DIGITS.subtract(end.copy_abs(), _LAST_WHOLE).copy_abs() <= error:
            return None
        return _DIGITS.fma(error, way, end)

    return moved


def _uncut(end: str, _: int) -> str | None:
    return None if _CUT in end else end


def _date_moved(end: date, _: int) -> date | None:
    return None if end < _GREGORIAN else end


def _moment_moved(end: datetime, way: int) -> datetime | None:
    if end.date() < _GREGORIAN:
        return None
    try:
        return end + way * (_MINUTE if end < _WHOLE_MINUTES else _MILLISECOND)
    except OverflowError:  # the last millisecond of Python's calendar, and later ones may follow
        return None


_SAID_KINDS: Mapping[str, _Kind] = {
    "short": (_said_whole, _as_it_is),
    "integer": (_said_whole, _as_it_is),
    "long": (_said_whole, _as_it_is),
    "string": (_said_text, _uncut),
    "date": (date.fromisoformat, _date_moved),
    "timestamp": (moment_of, _moment_moved),
}
