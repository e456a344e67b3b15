"""What writers know of their writes, and what a reader of all changes has to find then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from tests.spark.chain.streams import SOURCE

TABLE = SOURCE
"""A SHARED table of `id`, its key, and `value`: the one that the stream of tests/spark/chain writes, with ids below a hundred."""

Row = tuple[object, object]
"""An id and a value."""
Known = tuple[int | None, ...]
"""The values that a row may have; None where it may not be there."""


class Write(NamedTuple):
    """A change that a writer made once. No two have the same id and value, and each id has one writer."""

    id: int
    value: int | None
    """None: the row was deleted."""
    acknowledged: bool
    """False where the writer does not know whether it was done."""


def known_rows(writes: Iterable[Write]) -> dict[int, Known]:
    rows: dict[int, Known] = {}
    for write in writes:
        rows[write.id] = (write.value,) if write.acknowledged else (*rows.get(write.id, (None,)), write.value)
    return rows


def first_id(number: int) -> int:
    """Of the ids of a writer, counted from 1."""
    return number << 32


def wrong_rows(writes: Iterable[Write], there: Counter[Row]) -> Iterator[str]:
    """Rows that are not what their writers know of them, and those of no writer."""
    known = known_rows(writes)
    found: dict[object, list[object]] = {}
    for (key, value), times in there.items():
        found.setdefault(key, []).extend([value] * times)
    for key, values in known.items():
        has = found.get(key, [None])
        if len(has) != 1 or has[0] not in values:
            yield f"{key} is {has}, not one of {values}"
    for key in found.keys() - known.keys():
        yield f"{key} has no writer"


def wrong_times(writes: Iterable[Write], heard: Mapping[Row, int]) -> Iterator[str]:
    """Changes that were not heard once, if they were acknowledged, or at most once, if it is unknown whether they were done."""
    allowed: dict[Row, tuple[int, ...]] = {(write.id, write.value): (1,) if write.acknowledged else (0, 1) for write in writes}
    for change, times in allowed.items():
        if heard.get(change, 0) not in times:
            yield f"{change} was heard {heard.get(change, 0)} times, not {times}"
    for change in heard.keys() - allowed.keys():
        yield f"{change} was heard, and has no writer"
