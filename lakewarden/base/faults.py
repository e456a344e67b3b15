"""Named places between two effects, where a crash test may kill the process. In production nothing happens there."""

from __future__ import annotations

from collections.abc import Callable

Reach = Callable[[str], None]
"""Called with the name of each place as it is reached, such as `settle:cut`."""


def no_faults(place: str) -> None:
    """The `Reach` of production."""
