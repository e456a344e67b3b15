"""Where a batch of changes ends: behind whole positions, since the rows of one became visible together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from lakewarden.log.chunk import RowRange
from lakewarden.log.position import end_of, position_of


def upto_of(ranges: Iterable[RowRange], after: int, limit: int, end: int) -> int:
    """The end of the position with which there are at least `limit` rows; `end` where there are fewer.

    Args:
        ranges: beyond `after`, ascending.
    """
    counts = ((position_of(each.last_seq), each.last_seq - max(after, each.first_seq - 1)) for each in ranges)
    return _upto(counts, limit, end)


def upto_of_rows(seqs: Iterable[int], limit: int, end: int) -> int:
    """The same of single rows, by their `_seq`."""
    return _upto(((position_of(seq), 1) for seq in seqs), limit, end)


def ends_of_parts(ranges: Sequence[RowRange], part_bytes: int) -> Iterator[int]:
    """The last `_seq` of each part but the last one: whole chunks of about so many bytes.

    Args:
        ranges: of one user, ascending.
    """
    taken = 0
    for each in ranges[:-1]:
        taken += each.length
        if taken >= part_bytes:
            yield each.last_seq
            taken = 0


def _upto(counts: Iterable[tuple[int, int]], limit: int, end: int) -> int:
    rows = 0
    for position, count in counts:
        rows += count
        if rows >= limit:
            return min(end, end_of(position))
    return end
