"""Quantities as people write and read them: numbers of bytes, and lengths of time. Items by portions, and by keys."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TypeVar

from lakewarden.errors import InvalidArgument

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

_STEP = 1024
_BYTES = re.compile(r"(?:^|_)bytes(?:_|$)|Bytes$")
"""In the name of a column or metric, ours or another writer's: its numbers are bytes."""
_SIZES = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def in_units(size: int) -> str:
    """`790 B`, `1.5 KiB`, `252.0 GiB`: bytes in the largest unit of which there is at least one, to a tenth."""
    if abs(size) < _STEP:
        return f"{size} B"
    scaled, units = size / _STEP, iter(_SIZES)
    unit = next(units)
    while abs(round(scaled, 1)) >= _STEP and (larger := next(units, None)):
        scaled, unit = scaled / _STEP, larger
    return f"{scaled:,.1f} {unit}"


def by_name(name: str, number: int) -> str:
    """The number, in units where its name says that it counts bytes."""
    return in_units(number) if _BYTES.search(name) else str(number)


def number_of(number: int, noun: str) -> str:
    """`1 scope`, `1,234 scopes`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


# Reads a length of time such as `7 d` or `500 ms`, and writes one.
_FORM = re.compile(r"(\d{1,9})\s*([a-z]*)")
_TIMES = {
    1: ("ms", "milli", "millis", "millisecond", "milliseconds"),
    1_000: ("", "s", "sec", "secs", "second", "seconds"),
    60_000: ("m", "min", "mins", "minute", "minutes"),
    3_600_000: ("h", "hour", "hours"),
    86_400_000: ("d", "day", "days"),
}
_EXAMPLES = "'7 d', '24 h', '30 min', '90 s' or '500 ms'"
_MILLIS = {name: millis for millis, names in _TIMES.items() for name in names}


def seconds_of(option: str, text: str) -> int | float:
    """The seconds that a text means, with a fraction only where it has milliseconds that need one.

    Raises:
        InvalidArgument: it is not a length of time, or is 0.
    """
    found = _FORM.fullmatch(text.strip().lower())
    if found is None or found[2] not in _MILLIS or int(found[1]) == 0:
        raise InvalidArgument(f"{option} {text!r} is not a length of time above 0; write it as {_EXAMPLES}")
    millis = int(found[1]) * _MILLIS[found[2]]
    return millis / 1000 if millis % 1000 else millis // 1000


def text_of(seconds: float) -> str:
    """As `seconds_of` reads it: `90 s`, or `500 ms`."""
    return f"{seconds:.0f} s" if seconds == int(seconds) else f"{round(seconds * 1000)} ms"


def portions(items: Iterable[T], size_of: Callable[[T], int], most: int, most_items: int = sys.maxsize) -> Iterator[list[T]]:
    """The items in their order, in portions of at most so much together, and so many; one that has more is a portion of its
    own."""
    portion: list[T] = []
    room = most
    for item in items:
        size = size_of(item)
        if portion and (size > room or len(portion) == most_items):
            yield portion
            portion, room = [], most
        portion.append(item)
        room -= size
    if portion:
        yield portion


def grouped(items: Iterable[T], key_of: Callable[[T], K]) -> dict[K, tuple[T, ...]]:
    """The items of each key, in their order."""
    found: dict[K, list[T]] = {}
    for item in items:
        found.setdefault(key_of(item), []).append(item)
    return {key: tuple(some) for key, some in found.items()}


def lasting(seconds: float) -> str:
    """`12 s`, `3 h 20 min`, `5 d`: whole seconds in the largest unit of which there is one, and the next."""
    for size, unit, part, smaller in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if seconds >= size:
            more = int(seconds % size) // part
            return f"{int(seconds) // size:,} {unit}" + (f" {more} {smaller}" if more else "")
    return f"{int(seconds)} s"
