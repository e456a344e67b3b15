"""K3's wire form of single values: int64 as text, times as milliseconds in text, enums by their full names."""

from __future__ import annotations

import re
from datetime import datetime
from typing import TypeVar

from lakewarden.base.clock import to_millis
from lakewarden.errors import InvalidArgument
from lakewarden.sql.strategies import WireEnum

E = TypeVar("E", bound=WireEnum)

_INT64 = 1 << 63
_WHOLE = re.compile("-?[0-9]+")


def int64(value: int) -> str:
    return str(value)


def millis(moment: datetime) -> str:
    return str(to_millis(moment))


def whole(field: str, value: object) -> int:
    """Reads an int64 of a request: `"128"` or 128.

    Raises:
        InvalidArgument: it is neither.
    """
    number = int(value) if isinstance(value, str) and _WHOLE.fullmatch(value.strip()) else value
    if isinstance(number, int) and not isinstance(number, bool) and -_INT64 <= number < _INT64:
        return number
    raise InvalidArgument(f"{field} {value!r} is no whole number: write 128, or '128'")


def member(kind: type[E], field: str, value: object) -> E:
    """Reads an enum of a request, by its full name or its number.

    Raises:
        InvalidArgument: there is no such member; the message lists the names.
    """
    names = kind.wires()
    if isinstance(value, str) and value in names:
        return names[value]
    if isinstance(value, int) and not isinstance(value, bool) and value in set(names.values()):
        return kind(value)
    raise InvalidArgument(f"{field} {value!r} is unknown; it is one of {', '.join(names)}")


def one_of(field: str, value: object, words: tuple[str, ...]) -> str:
    """Raises:
    InvalidArgument: the value is none of the words.
    """
    if value not in words:
        raise InvalidArgument(f"{field} {value!r} is unknown; it is one of {', '.join(words)}")
    return str(value)
