"""The arithmetic of `_seq`: the position of a row's segment, the partition's bucket, the row's ordinal in the segment.

    seq = position << 28 | bucket << 20 | ordinal

So rows are ordered by their segments' positions, and within a segment by their order there. The
eight bits of the bucket keep the rows of a table's partitions apart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lakewarden.base.scope import NOTHING as NOTHING  # noqa: PLC0414  # whoever counts positions begins with it
from lakewarden.errors import StorageUnavailable

ORDINALS = 1 << 20
"""The number of rows that one segment can number."""

_SHIFT = 28

WHOLE = 1 << _SHIFT
"""The number of rows that one position can number: of a direct write, whose rows are in no bucket."""

LAST_POSITION = (1 << (63 - _SHIFT)) - 1
"""A `_seq` is a signed 64-bit number."""


def seq_of(position: int, ordinal: int, bucket: int = 0) -> int:
    return position << _SHIFT | bucket << 20 | ordinal


def position_of(seq: int) -> int:
    return seq >> _SHIFT


def end_of(position: int) -> int:
    """Returns the last possible `_seq` of a position; `NOTHING` for `NOTHING`."""
    return (position + 1 << _SHIFT) - 1


def whole(seq: int) -> int:
    """Returns the end of the last position all of whose rows are at or below `seq`."""
    # With one added, a `seq` that is itself the end of a position keeps that position.
    return end_of(position_of(seq + 1) - 1)


Behind = Callable[[], int]
"""Looks at a log, and returns the position that it saw as the last: `position_of(view.end)`."""


# The result of an append: how many rows were appended, and where; or how many were, if it failed half-way.
@dataclass(frozen=True)
class Receipt:
    """A complete append. `last_seq` is the highest `_seq` of the call's rows."""

    rows: int
    last_seq: int


class PartlyAppended(StorageUnavailable):
    """A write of several segments failed half-way: some rows are acknowledged, the outcome of the others is unknown."""

    def __init__(self, message: str, rows: int, users: frozenset[str]) -> None:
        super().__init__(message)
        self.rows = rows
        """The number of acknowledged rows: the first ones of the call, when ordered by user."""
        self.users = users
        """Users all of whose rows were acknowledged."""
