"""Rows of many users in one call, encoded by columns: no object of Python for each row or user.

A chunk is a message of Arrow (`log.record`). Messages of users with as many rows, as many bytes of text and as many NULLs in each
column differ in their values alone. So Arrow encodes one of each such shape, and the others are copies of it, into which numpy
writes the values (`log.message_body`). The users are brought into the order of their shapes, so that the values of a shape
stand together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast, overload

import numpy as np
import pyarrow as pa

from lakewarden.base.arrays import numbers
from lakewarden.log.chunk import Chunk
from lakewarden.log.message_body import Block, Body, Numbers, is_known, variable_bytes

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
    if counts.max() > most_rows or (shapes.max() + 1) * _USERS_OF_A_SHAPE > len(users):
        return None
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
    if all(crowd[int(first)].data == pattern for first, pattern in zip(firsts, patterns, strict=True)):
        return crowd
    return None  # another release of Arrow lays its messages out in another way


def _numbered(parts: Sequence[Numbers]) -> Numbers:
    """Users with the same numbers in all parts get one number, from 0 on."""
    found = parts[0]
    for each in parts:
        _, dense = np.unique(found, return_inverse=True)
        found = dense * (each.max() + 1) + each
    _, dense = np.unique(found, return_inverse=True)
    return dense
