"""Does again what met an ALTER: nothing was written, and the next try takes the columns as they are then."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from lakewarden.errors import SchemaChanged

T = TypeVar("T")

_ATTEMPTS = 5
"""Each that is lost is an ALTER that came between."""


def anew(work: Callable[[], T]) -> T:
    """
    Args:
        work: reads the catalog each time that it is called.

    Raises:
        SchemaChanged: the columns kept changing; nothing was written.
    """
    for _ in range(_ATTEMPTS - 1):
        try:
            return work()
        except SchemaChanged:
            continue
    return work()
