"""Divides what comes one after the other into portions of a bounded size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def portions(items: Iterable[T], size_of: Callable[[T], int], most: int) -> Iterator[list[T]]:
    """The items in their order, in portions of at most so much together; one that has more is a portion of its own."""
    portion: list[T] = []
    size = 0
    for item in items:
        if portion and size + size_of(item) > most:
            yield portion
            portion, size = [], 0
        portion.append(item)
        size += size_of(item)
    if portion:
        yield portion
