"""Rows of many users in one call, encoded by columns: no object of Python for each row or user.

A chunk is a message of Arrow (`log.record`). Messages of users with as many rows, as many bytes of text and as many NULLs in each
column differ in their values alone. So Arrow encodes one of each such shape, and the others are copies of it, into which numpy
writes the values (`log.crowd`). The users are brought into the order of their shapes, so that the values of a shape
stand together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast, overload

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakewarden.base.arrays import numbers
from lakewarden.log.chunk import Chunk

# The body of a message of Arrow: where the values of a few columns are in its bytes.
#
# For each column a bitmap of what is not NULL (absent where nothing is), for text the places at which values end, and the
# values; each padded to eight bytes.

Numbers = NDArray[np.int64]
Block = NDArray[np.uint8]


def is_known(kind: pa.DataType) -> bool:
    """Whether columns of this type have the buffers that are known here."""
    return pa.types.is_primitive(kind) or pa.types.is_decimal128(kind) or _is_text(kind)


def variable_bytes(data: pa.Table, which: Numbers, users: int) -> list[Numbers]:
    """What makes messages of as many rows differ in their form: for each user, the NULLs and the bytes of text in each column.

    Args:
        which: for each row, the place of its user.
    """
    found = []
    for column in data.columns:
        array: Any = column.combine_chunks()
        if array.null_count:
            found.append(np.bincount(which, _unset(array), users).astype(np.int64))
        if _is_text(array.type):
            lengths = np.diff(_ends(array)) * (1 - _unset(array))  # a NULL may have bytes, which are not encoded
            found.append(np.bincount(which, lengths, users).astype(np.int64))
    return found


@dataclass(frozen=True)
class Body:
    """Rows, from which bodies are made."""

    columns: tuple[_Column, ...]

    @classmethod
    def of(cls, rows: pa.RecordBatch) -> Body:
        return cls(tuple(_Column.of(column) for column in rows.columns))

    def fill(self, messages: Block, start: int, rows: int) -> None:
        """Writes the values of neighbouring users into their messages.

        Args:
            messages: one in each line, of the same form, for the same number of rows.
            start: where the first user's rows begin.
        """
        parts = [part for column in self.columns for part in column.parts(start, len(messages), rows)]
        # The body ends the message, so its place is counted from the end; the metadata in front is the same for the shape.
        at = messages.shape[1] - sum(_padded(part.shape[1]) for part in parts)
        for part in parts:
            messages[:, at : at + part.shape[1]] = part
            at += _padded(part.shape[1])


@dataclass(frozen=True)
class _Column:
    values: Block
    """A line for each row: its bytes, or one bit; of text, all bytes in one line."""
    ends: NDArray[np.int32] | None
    """Of text: where the first value begins, and where each ends."""
    is_bits: bool
    unset: Block
    """Of each row, whether it is NULL."""

    @classmethod
    def of(cls, array: pa.Array[Any]) -> _Column:
        unset, data = _unset(array), array.buffers()[-1]
        if _is_text(array.type):
            return cls(_bytes(data)[None, :], _ends(array), False, unset)
        if pa.types.is_boolean(array.type):
            return cls((_bits(data, array.offset, len(array)) & (1 - unset))[:, None].astype(np.uint8), None, True, unset)
        width = array.type.bit_width // 8
        values = _bytes(data)[array.offset * width : (array.offset + len(array)) * width].reshape(-1, width)
        return cls(values, None, False, unset)

    def parts(self, start: int, users: int, rows: int) -> Iterator[Block]:
        """The column's buffers, a line for each user; those without a byte are left out."""
        end = start + users * rows
        # All users of a shape have as many NULLs in the column, so the first one speaks for all.
        if self.unset[start : start + rows].any():
            yield _packed(1 - self.unset[start:end].reshape(users, rows))
        if self.ends is None:
            values = self.values[start:end].reshape(users, -1)
            yield _packed(values) if self.is_bits else values
            return
        begins = self.ends[start:end].reshape(users, rows)
        lasts = self.ends[start + rows : end + 1 : rows]
        ends = np.column_stack([begins, lasts]) - begins[:, :1]
        yield np.ascontiguousarray(ends, np.int32).view(np.uint8)
        if size := (int(self.ends[end]) - int(self.ends[start])) // users:
            yield self.values[0, self.ends[start] : self.ends[end]].reshape(users, size)


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_binary(kind)


def _padded(size: int) -> int:
    return -(-size // 8) * 8


def _packed(bits: Block) -> Block:
    return np.packbits(bits, axis=1, bitorder="little")


def _ends(array: Any) -> NDArray[np.int32]:
    found: NDArray[np.int32] = np.frombuffer(array.buffers()[1], np.int32)[array.offset : array.offset + len(array) + 1]
    return found


def _unset(array: pa.Array[Any]) -> Block:
    valid = array.buffers()[0]
    return np.zeros(len(array), np.uint8) if valid is None else np.uint8(1) - _bits(valid, array.offset, len(array))


def _bits(data: Any, start: int, count: int) -> Block:
    found: Block = np.unpackbits(_bytes(data), bitorder="little", count=start + count)[start:]
    return found


def _bytes(data: Any) -> Block:
    return np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)


MANY = 1024
"""Users from which columns cost less than a chunk for each."""

_USERS_OF_A_SHAPE = 32
"""On average. With fewer, to encode and compare one of each shape costs about as much as to encode all."""

_MOST_BYTES = 1 << 30
"""Arrow's offsets of text are 32 bits, and all rows are brought into another order at once."""


@dataclass(frozen=True, eq=False)
class Crowd(Sequence[Chunk]):
    """A chunk for each of many users. They are encoded when they are taken out, and not kept."""

    body: Body
    users: pa.Array[Any]
    counts: Numbers
    """The rows of each user."""
    sizes: Numbers
    """The bytes of each user's message."""
    starts: Numbers
    """Where the rows of each user begin in `body`."""
    shapes: Numbers
    """The number of each user's shape; ascends."""
    patterns: tuple[bytes, ...]
    """A message of each shape."""

    @property
    def names(self) -> list[str]:
        return cast("list[str]", self.users.to_pylist())

    @property
    def rows(self) -> int:
        return int(self.counts.sum())

    def __len__(self) -> int:
        return len(self.counts)

    @overload
    def __getitem__(self, index: int) -> Chunk: ...

    @overload
    def __getitem__(self, index: slice) -> Crowd: ...

    def __getitem__(self, index: int | slice) -> Chunk | Crowd:
        if isinstance(index, int):
            place = range(len(self))[index]
            return next(iter(self[place : place + 1]))
        counts, sizes, starts, shapes = (each[index] for each in (self.counts, self.sizes, self.starts, self.shapes))
        return Crowd(self.body, self.users[index], counts, sizes, starts, shapes, self.patterns)

    def __iter__(self) -> Iterator[Chunk]:
        messages = (memoryview(message) for block in self.blocks(b"") for message in block)
        for user, rows, message in zip(self.names, self.counts.tolist(), messages, strict=True):
            yield Chunk(user, rows, message)

    def blocks(self, before: bytes, room: int = 0) -> Iterator[Block]:
        """The messages in their order, those of a shape as lines of one array; each behind these bytes, and with room for others
        behind it."""
        first = 0
        for last in [*(np.flatnonzero(np.diff(self.shapes)) + 1).tolist(), len(self)]:
            end = len(before) + int(self.sizes[first])
            block = np.empty((last - first, end + room), np.uint8)
            block[:, :end] = np.frombuffer(before + self.patterns[self.shapes[first]], np.uint8)
            self.body.fill(block[:, :end], int(self.starts[first]), int(self.counts[first]))
            yield block
            first = last

    def portions(self, max_rows: int, max_bytes: int) -> Iterator[Crowd]:
        """In as few parts as the limits allow, in order."""
        ends = [(np.cumsum(self.counts), max_rows), (np.cumsum(self.sizes), max_bytes)]
        first = 0
        while first < len(self):
            fit = (np.searchsorted(sums, (sums[first - 1] if first else 0) + most, side="right") for sums, most in ends)
            last = max(first + 1, min(map(int, fit)))
            yield self[first:last]
            first = last


def names_in(chunks: Sequence[Chunk]) -> list[str]:
    """The user of each chunk; encodes nothing."""
    return chunks.names if isinstance(chunks, Crowd) else [chunk.user for chunk in chunks]


def rows_in(chunks: Sequence[Chunk]) -> int:
    """How many rows the chunks have; encodes nothing."""
    return chunks.rows if isinstance(chunks, Crowd) else sum([chunk.rows for chunk in chunks])


def crowd_of(data: pa.Table, users: pa.Array[Any], which: Numbers, most_rows: int) -> Crowd | None:
    """The rows by user; None where columns cost more than they save, or a user has more rows than fit a chunk.

    Args:
        users: each once.
        which: for each row, the place of its user.
    """
    if len(users) < MANY or data.nbytes > _MOST_BYTES or not all(map(is_known, data.schema.types)):
        return None
    counts = np.bincount(which, minlength=len(users))
    shapes = _numbered([counts, *variable_bytes(data, which, len(users))])
    # A user with more rows than a chunk takes has to be cut into several, which is not done by columns.
    if counts.max() > most_rows or (shapes.max() + 1) * _USERS_OF_A_SHAPE > len(users):
        return None
    # Stable, here and below: within a user the rows keep the order of their arrival, which gives them their `_seq`.
    order = np.argsort(shapes, kind="stable")
    place = np.empty(len(users), np.int64)
    place[order] = np.arange(len(users))
    (rows,) = data.take(numbers(np.argsort(place[which], kind="stable"))).combine_chunks().to_batches()
    return _encoded(rows, users.take(numbers(order)), counts[order], shapes[order])


def _encoded(rows: pa.RecordBatch, users: pa.Array[Any], counts: Numbers, shapes: Numbers) -> Crowd | None:
    starts = np.cumsum(counts) - counts
    _, firsts = np.unique(shapes, return_index=True)
    alone = (rows.take(numbers(np.arange(starts[first], starts[first] + counts[first]))) for first in firsts)
    patterns = tuple(each.serialize().to_pybytes() for each in alone)
    sizes = np.array([len(each) for each in patterns], np.int64)[shapes]
    crowd = Crowd(Body.of(rows), users, counts, sizes, starts, shapes, patterns)
    # The layout is Arrow's own and no promise: for each shape one message is compared with what Arrow itself writes.
    if all(crowd[int(first)].data == pattern for first, pattern in zip(firsts, patterns, strict=True)):
        return crowd
    return None  # another release of Arrow lays its messages out in another way


def _numbered(parts: Sequence[Numbers]) -> Numbers:
    """Users with the same numbers in all parts get one number, from 0 on."""
    found = parts[0]
    for each in parts:
        _, dense = np.unique(found, return_inverse=True)
        # Dense numbers before each step: the product of all ranges may not fit 64 bits.
        found = dense * (each.max() + 1) + each
    _, dense = np.unique(found, return_inverse=True)
    return dense
