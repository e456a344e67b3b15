"""What statistics say in Delta's JSON: the numbers of rows, and the lowest and highest values of a column.

Bounds are rounded outwards by what they may have gone through, or not used. Whose a bound is cannot be known: another program
that restores a version, or compacts one, writes ours again as it has read them. So the type decides, by the worst that a known
writer does to it:

- DECIMAL: delta-rs writes DOUBLE, after a division and for some a step towards zero, and whole ones beyond 64 bits as the
  last of 64 bits. Where it reads them, it cuts what is below the column's scale.
- TIMESTAMP: Spark and delta-rs cut to milliseconds, the upper bound too. Spark writes the offset of its session's zone in
  minutes; until 1972 there were zones whose offset had seconds.
- DATE and TIMESTAMP before 15 October 1582: a file may be in the Julian calendar, and its statistics in ours.
- TEXT: Delta before 4 cut to 32 units of UTF-16 and put U+FFFD behind, which is below all characters beyond 16 bits. Where a cut
  went through a character, U+FFFD stands for it, too.
- Whole numbers are exact. Numbers of FLOAT and DOUBLE are not used (NaN, -0.0), nor BOOLEAN and BYTES.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from functools import lru_cache
from typing import Any, cast

import msgspec

from lakewarden.delta.parquet.schema import live_columns
from lakewarden.delta.parquet.stats import Bounds, Value
from lakewarden.delta.partitions import moment_of

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
        return _ends(kind, column, (each.lowest for each in files), -1), _ends(kind, column, (each.highest for each in files), 1)
    except (ValueError, TypeError, ArithmeticError):  # another writer's form: nothing is excluded by it
        return None


def _ends(kind: _Kind, column: str, said: Iterable[object], way: int) -> list[Value | None]:
    read, move = kind
    values = (end_of(each, column) for each in said)
    return [None if value is None else move(read(value), way) for value in values]


@lru_cache(maxsize=1024)
def _kinds(schema_json: str) -> dict[str, _Kind | None]:
    """How the bounds of each column are taken; None for a column without."""
    return {column.name: _kind_of(column.type) for column in live_columns(schema_json)}


def _kind_of(delta_type: str) -> _Kind | None:
    """`delta_type` is as Delta's schema names it, as `long` or `decimal(10,2)`."""
    return (_exact, _decimal(delta_type)) if delta_type.startswith("decimal(") else _KINDS.get(delta_type)


def _whole(value: object) -> int:
    if type(value) is not int:
        raise ValueError(f"{value!r} is not a whole number")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not text")
    return value


def _exact(value: object) -> Decimal:
    return Decimal(cast("Any", value))


def _as_it_is(end: int, _: int) -> int:
    return end


def _decimal(delta_type: str) -> Callable[[Decimal, int], Decimal | None]:
    unit = _DIGITS.scaleb(Decimal(1), -int(delta_type.rstrip(")").rpartition(",")[2]))

    def moved(end: Decimal, way: int) -> Decimal | None:
        error = _DIGITS.fma(end.copy_abs(), _THROUGH_DOUBLE, unit)
        if _DIGITS.subtract(end.copy_abs(), _LAST_WHOLE).copy_abs() <= error:
            return None
        return _DIGITS.fma(error, way, end)

    return moved


def _uncut(end: str, _: int) -> str | None:
    return None if _CUT in end else end


def _date(end: date, _: int) -> date | None:
    return None if end < _GREGORIAN else end


def _moment(end: datetime, way: int) -> datetime | None:
    if end.date() < _GREGORIAN:
        return None
    try:
        return end + way * (_MINUTE if end < _WHOLE_MINUTES else _MILLISECOND)
    except OverflowError:  # the last millisecond of Python's calendar, and later ones may follow
        return None


_KINDS: Mapping[str, _Kind] = {
    "short": (_whole, _as_it_is),
    "integer": (_whole, _as_it_is),
    "long": (_whole, _as_it_is),
    "string": (_text, _uncut),
    "date": (date.fromisoformat, _date),
    "timestamp": (moment_of, _moment),
}
