"""The arithmetic of `_seq`: position of the segment, bucket of the log, ordinal of the row (docs/log.md)."""

from __future__ import annotations

ORDINAL_BITS = 20
BUCKET_BITS = 8
_SHIFT = ORDINAL_BITS + BUCKET_BITS

START = -1
"""The position before the first one, and the `_seq` before the first row."""


def seq_of(position: int, ordinal: int, bucket: int = 0) -> int:
    return position << _SHIFT | bucket << ORDINAL_BITS | ordinal


def end_of(position: int) -> int:
    """The last `_seq` that a row at this position or below can have; -1 for the position before the first."""
    return (position + 1 << _SHIFT) - 1


def position_of(seq: int) -> int:
    return seq >> _SHIFT
