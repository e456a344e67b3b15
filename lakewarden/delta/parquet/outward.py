"""What bounds are worth that statistics give: rounded outwards by what they may have gone through, or not used.

Whose a bound is cannot be known: another program that restores a version, or compacts one, writes ours again as it has read
them. So the type decides, by the worst that a known writer does to it:

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

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from typing import Any

from lakewarden.delta.parquet.column_ends import Bounds, Value

_DIGITS = Context(prec=100)
"""Enough for every sum and product here of numbers of 38 digits, so that none is rounded."""

_THROUGH_DOUBLE = _DIGITS.power(2, -49)
"""By which part of itself a number may differ: eight units of DOUBLE's last place, for what delta-rs calculates on the way."""

_LAST_WHOLE = Decimal(2**63)

_GREGORIAN = date(1582, 10, 15)
_WHOLE_MINUTES = datetime(1972, 2, 1, tzinfo=UTC)
_MILLISECOND, _MINUTE = timedelta(milliseconds=1), timedelta(minutes=1)
_CUT = "\ufffd"

_Outward = Callable[[Any, int], Value | None]
"""Moves a bound down (-1) or up (1); None where nothing is known then."""


def outward(bounds: Bounds, delta_type: str) -> Bounds | None:
    """The bounds of a column in each file as far as they are worth; None of a type whose bounds are not used.

    Args:
        delta_type: as Delta's schema names it, as `long` or `decimal(10,2)`.
    """
    move = _decimal(delta_type) if delta_type.startswith("decimal(") else _MOVES.get(delta_type)
    if move is None:
        return None
    low, high = bounds
    return _moved(move, low, -1), _moved(move, high, 1)


def _moved(move: _Outward, ends: Sequence[Value | None], way: int) -> list[Value | None]:
    return [None if end is None else move(end, way) for end in ends]


def _exact(end: int, _: int) -> int:
    return end


def _decimal(delta_type: str) -> _Outward:
    unit = _DIGITS.scaleb(Decimal(1), -int(delta_type.rstrip(")").rpartition(",")[2]))

    def moved(end: Decimal, way: int) -> Decimal | None:
        error = _DIGITS.fma(end.copy_abs(), _THROUGH_DOUBLE, unit)
        if _DIGITS.subtract(end.copy_abs(), _LAST_WHOLE).copy_abs() <= error:
            return None
        return _DIGITS.fma(error, way, end)

    return moved


def _text(end: str, _: int) -> str | None:
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


_MOVES: Mapping[str, _Outward] = {
    "short": _exact,
    "integer": _exact,
    "long": _exact,
    "string": _text,
    "date": _date,
    "timestamp": _moment,
}
