"""What is known of a segment or carry object without its rows: whose chunks it holds, whose put made it, and its link."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lakewarden.log.chunk import RowRange
from lakewarden.log.objects.columns import Columns
from lakewarden.log.position import NOTHING

ID_BYTES = 16
UNKNOWN = "0" * 2 * ID_BYTES
"""In place of the id of a put that is not known."""

_DIGITS = 12
"""Of a put's id, enough to tell the few contenders for one position apart."""

_UNKNOWN = UNKNOWN[:_DIGITS]

_COUNT_BYTES = 3
"""Of a number of rows, one more than it; 0 where it is not known. A segment has at most `ORDINALS` rows."""


@dataclass(frozen=True)
class Header:
    """What is in one segment or carry object."""

    key: str
    put_id: str
    ranges: Sequence[RowRange]
    """Its chunks: a tuple, or of many chunks `Columns`."""
    after: str = UNKNOWN
    """The link to the segment before it."""

    @property
    def wide(self) -> bool:
        """Whether it has many chunks, so that one user's are worth a search."""
        return isinstance(self.ranges, Columns)

    @property
    def bytes(self) -> int:
        return total_bytes(self.ranges)

    @property
    def rows(self) -> int:
        return int(self.ranges.rows.sum()) if isinstance(self.ranges, Columns) else sum(each.rows for each in self.ranges)

    @property
    def end(self) -> int:
        """The number of bytes that the object has at least."""
        if isinstance(self.ranges, Columns):
            return int(np.max(self.ranges.offsets + self.ranges.lengths, initial=0))
        return max((each.offset + each.length for each in self.ranges), default=0)

    @property
    def link(self) -> str:
        """What the segment after it says of it."""
        return link_to(self.put_id, self.rows)

    def of(self, users: Collection[str]) -> Sequence[RowRange]:
        """The chunks of these users."""
        if isinstance(self.ranges, Columns):
            return self.ranges.of_users(users)
        return tuple(each for each in self.ranges if each.user in users)

    def open(self, marks: Mapping[str, int]) -> Sequence[RowRange]:
        """The chunks with rows above their users' marks."""
        if isinstance(self.ranges, Columns):
            return self.ranges.taken(~self.ranges.settled(marks))
        return tuple(each for each in self.ranges if each.last_seq > marks.get(each.user, NOTHING))

    def settled(self, marks: Mapping[str, int]) -> Sequence[RowRange]:
        """The others."""
        if isinstance(self.ranges, Columns):
            return self.ranges.taken(self.ranges.settled(marks))
        return tuple(each for each in self.ranges if each.last_seq <= marks.get(each.user, NOTHING))


def total_bytes(ranges: Sequence[RowRange]) -> int:
    """The bytes of chunks."""
    return int(ranges.lengths.sum()) if isinstance(ranges, Columns) else sum(each.length for each in ranges)


def without(ranges: Sequence[RowRange], user: str) -> Sequence[RowRange]:
    """The chunks of all other users."""
    if isinstance(ranges, Columns):
        return ranges.taken(~ranges.has_user({user}))
    return tuple(each for each in ranges if each.user != user)


def highest_seq(ranges: Sequence[RowRange]) -> int:
    """The highest `_seq` of chunks; `NOTHING` where there are none."""
    if isinstance(ranges, Columns):
        return int(ranges.last_seqs.max(initial=NOTHING))
    return max((each.last_seq for each in ranges), default=NOTHING)


def short(put_id: str) -> str:
    """What links and cuts keep of a put's id."""
    return put_id[:_DIGITS]


def link_to(put_id: str, rows: int | None) -> str:
    """What a segment's header says of the segment before it: whose put made it, and how many rows it has, where that is known.

    The rows tell how many are lost with it, should it get lost.
    """
    return (short(put_id).ljust(_DIGITS, "0") + counted(rows).hex()).ljust(2 * ID_BYTES, "0")


def rows_before(link: str) -> int | None:
    """How many rows the segment before has, by a link to it; None where its writer did not know."""
    return counted_in(bytes.fromhex(link[_DIGITS : _DIGITS + 2 * _COUNT_BYTES]))


def counted(rows: int | None) -> bytes:
    """A number of rows as it is stored."""
    return (0 if rows is None else rows + 1).to_bytes(_COUNT_BYTES, "little")


def counted_in(data: bytes) -> int | None:
    """The number of rows that is stored there; None where it is not known."""
    number = int.from_bytes(data, "little")
    return number - 1 if number else None


def same_put(one: str, other: str) -> bool:
    """Whether two ids, or beginnings of them, are of the same put; an unknown one may be any."""
    first, second = short(one), short(other)
    return first == second or _UNKNOWN in (first, second)
