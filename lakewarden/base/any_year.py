"""Dates and moments of any year as text: Python's calendar has the years 1 to 9999, Delta's, Arrow's and DuckDB's have more.

Years are astronomical, as ISO 8601 counts them: the year 0 is 1 BC. DuckDB's infinity is a type's greatest number.
"""

from __future__ import annotations

from datetime import date

DAY_MICROS = 86_400_000_000
INFINITE_DAY = (1 << 31) - 1
INFINITE_MOMENT = (1 << 63) - 1

_CYCLE_YEARS, _CYCLE_DAYS = 400, 146_097
"""After as many years the calendar repeats itself."""
_FIRST = date(1970, 1, 1).toordinal() - date.min.toordinal()
"""Days from the first of Python's calendar to the epoch."""


def civil(days: int) -> tuple[int, int, int]:
    """Year, month and day of so many days after 1970-01-01, in the Gregorian calendar of all years."""
    cycles, rest = divmod(days + _FIRST, _CYCLE_DAYS)
    found = date.fromordinal(rest + 1)
    return found.year + cycles * _CYCLE_YEARS, found.month, found.day


def day_text(days: int) -> str:
    """As ISO 8601 has it, `-0043-03-15` for 44 BC; `infinity` or `-infinity`."""
    if abs(days) == INFINITE_DAY:
        return _infinity(days)
    year, month, day = civil(days)
    return f"{_year(year)}-{month:02}-{day:02}"


def moment_text(micros: int, between: str = "T") -> str:
    """As ISO 8601 has it, with microseconds and without a zone; `infinity` or `-infinity`."""
    if abs(micros) == INFINITE_MOMENT:
        return _infinity(micros)
    days, rest = divmod(micros, DAY_MICROS)
    return f"{day_text(days)}{between}{clock_text(rest)}"


def clock_text(micros: int) -> str:
    """A time of day with microseconds; 24:00:00 is one."""
    seconds, rest = divmod(micros, 1_000_000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{rest:06}"


def _year(year: int) -> str:
    return f"{'-' if year < 0 else ''}{abs(year):04}"


def _infinity(number: int) -> str:
    return "infinity" if number > 0 else "-infinity"
