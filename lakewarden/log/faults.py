"""What is lost of a table's log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol


class LogFaults(Protocol):
    """True where anything is lost."""

    def __bool__(self) -> bool: ...

    @property
    def positions(self) -> tuple[int, ...]:
        """All whose rows, as they were acknowledged, are lost from the log."""
        ...

    @property
    def rows(self) -> Mapping[int, int | None]:
        """By lost position, how many rows it had; None where that is not known."""
        ...

    @property
    def carry(self) -> Sequence[str]:
        """Objects with rows of earlier positions that no flush has taken, and that are lost too."""
        ...

    @property
    def summary(self) -> str:
        """The same in words, as `the segments of positions 3, 4 are lost`."""
        ...
