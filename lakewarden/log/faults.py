"""The lost parts of a table's log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol


class LogFaults(Protocol):
    """Returns whether anything is lost."""

    def __bool__(self) -> bool: ...

    @property
    def positions(self) -> tuple[int, ...]:
        """The positions whose acknowledged rows are lost from the log."""
        ...

    @property
    def rows(self) -> Mapping[int, int | None]:
        """The number of rows by lost position; None when unknown."""
        ...

    @property
    def carry(self) -> Sequence[str]:
        """Lost objects with rows of earlier positions that no flush has taken."""
        ...

    @property
    def summary(self) -> str:
        """The same in words, such as `the segments of positions 3, 4 are lost`."""
        ...
