"""What is known of a segment or carry object without its rows: whose chunks it holds, whose put made it, and its link."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from lakewarden.log.chunk import Payload, RowRange
from lakewarden.log.objects.index import Columns, Index
from lakewarden.log.position import NOTHING

ID_BYTES = 16
UNKNOWN = "0" * 2 * ID_BYTES
"""In place of the id of a put that is not known."""

NO_KEYS: Mapping[str, int] = MappingProxyType({})
_DIGITS = 12
"""Of a put's id, enough to tell the few contenders for one position apart."""

_UNKNOWN = UNKNOWN[:_DIGITS]

_COUNT_BYTES = 3
"""Of a number of rows, one more than it; 0 where it is not known. A segment has at most `ORDINALS` rows in itself."""

_UNCOUNTED = (1 << 8 * _COUNT_BYTES) - 1
"""From this many rows on, which only a staged batch has, they are not counted."""


class BatchIdentity(NamedTuple):
    """The identity of a staged batch: its writer's key, and its number (`log.once`)."""

    writer: str
    batch: int


@dataclass(frozen=True)
class Header:
    """What is in one segment or carry object."""

    key: str
    put_id: str
    chunks: tuple[RowRange, ...] | Columns | Index
    """A tuple of few chunks, columns of many, or an index that is read when it is needed.

    Of an index, every method below that returns chunks raises `Missing` if the object was cleaned up since the header was read,
    and `Corrupt` if the index is damaged.
    """
    after: str = UNKNOWN
    """The link to the segment before it."""
    tiny: bytes = b""
    """The whole object, where it is so small that it was read with its header."""
    published: BatchIdentity | None = None
    keys: Mapping[str, int] = field(default_factory=lambda: NO_KEYS)
    """Of the writes that are in it and that a client may send again, with their rows (`write_key`)."""

    @property
    def ranges(self) -> Sequence[RowRange]:
        """All chunks."""
        return self.chunks.columns() if isinstance(self.chunks, Index) else self.chunks

    @property
    def wide(self) -> bool:
        """Whether it has many chunks, so that one user's are worth a search."""
        return not isinstance(self.chunks, tuple)

    @property
    def weight(self) -> int:
        """The number of chunks, or of blocks of an index, that it keeps in memory; 200 bytes of rows count as a chunk."""
        return (self.chunks.blocks if isinstance(self.chunks, Index) else len(self.chunks)) + len(self.tiny) // 200

    @property
    def bytes(self) -> int:
        return self.chunks.bytes if isinstance(self.chunks, Index) else total_bytes(self.chunks)

    @property
    def rows(self) -> int:
        if isinstance(self.chunks, Index):
            return self.chunks.rows
        return int(self.chunks.rows.sum()) if isinstance(self.chunks, Columns) else sum(each.rows for each in self.chunks)

    @property
    def ends(self) -> Mapping[str, int]:
        """The number of bytes that each object with its chunks has at least: this one, or those of a staged batch."""
        if isinstance(self.chunks, tuple):
            ends: dict[str, int] = {}
            for each in self.chunks:
                ends[each.key] = max(ends.get(each.key, 0), each.offset + each.length)
            return ends
        if isinstance(self.chunks, Index):
            # An index knows its object's end without a read of its blocks.
            return {self.key: self.chunks.end}
        return {self.key: int(np.max(self.chunks.offsets + self.chunks.lengths, initial=0))}

    @property
    def link(self) -> str:
        """What the segment after it says of it."""
        return link_to(self.put_id, self.rows)

    def held(self, where: RowRange) -> Payload:
        """The bytes of a chunk; none where the object is not tiny."""
        return self.tiny[where.offset : where.offset + where.length]

    def of(self, users: Collection[str]) -> Sequence[RowRange]:
        """The chunks of these users."""
        if isinstance(self.chunks, tuple):
            return tuple(each for each in self.chunks if each.user in users)
        return self.chunks.of_users(users)

    def open(self, marks: Mapping[str, int]) -> Sequence[RowRange]:
        """The chunks with rows above their users' marks."""
        if isinstance(self.chunks, tuple):
            return tuple(each for each in self.chunks if each.last_seq > marks.get(each.user, NOTHING))
        # An index reads all of its blocks here: open chunks are those of everyone without a mark.
        every = Columns.of(self.key, self.put_id, self.ranges)
        return every.taken(~every.settled(marks))

    def settled(self, marks: Mapping[str, int]) -> Sequence[RowRange]:
        """The others. Of an index, only the marked users are looked up."""
        if isinstance(self.chunks, tuple):
            return tuple(each for each in self.chunks if each.last_seq <= marks.get(each.user, NOTHING))
        theirs = self.chunks.of_users(marks.keys())
        return theirs.taken(theirs.settled(marks))

    def check(self) -> None:
        """Raises Corrupt: the chunks of an index cannot be read, or are not those that it counts."""
        if isinstance(self.chunks, Index):
            self.chunks.columns()

    def has_open(self, marks: Mapping[str, int]) -> bool:
        """Whether any chunk has rows above its user's mark."""
        # By bytes, so that of an index only the blocks of marked users are read.
        return self.bytes > total_bytes(self.settled(marks))


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
    # Zero bytes have to mean "not known", as in objects of format 1, so a count is kept one higher.
    return (0 if rows is None or rows >= _UNCOUNTED else rows + 1).to_bytes(_COUNT_BYTES, "little")


def counted_in(data: bytes) -> int | None:
    """The number of rows that is stored there; None where it is not known."""
    number = int.from_bytes(data, "little")
    return number - 1 if number else None


def same_put(one: str, other: str) -> bool:
    """Whether two ids, or beginnings of them, are of the same put; an unknown one may be any."""
    first, second = short(one), short(other)
    # Zeros are compared with nothing: a writer that could not learn the put before left them, which is not a fault.
    return first == second or _UNKNOWN in (first, second)
