"""Cuts a file of lines into blocks of whole records. A line break inside quotes, as CSV allows it, ends no record.

Quotes pair: a place is inside quotes where the number of them before it is odd. So a range of a large file can be read alone, if
the quotes before it were counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from lakewarden.errors import InvalidArgument

BLOCK_BYTES = 8 << 20
"""Bytes of the blocks that are parsed at once: some 100,000 rows, and some ten times as many bytes while they are checked."""

LONGEST = 256 << 20


@dataclass(frozen=True)
class Counted:
    """The quotes and line breaks of a range."""

    quotes: int
    breaks: int


@dataclass(frozen=True)
class Block:
    """Whole records, and the line of the first one."""

    data: bytes
    line: int


def count(file: BinaryIO, first: int, last: int) -> Counted:
    quotes = breaks = 0
    file.seek(first)
    left = last - first
    while left and (data := file.read(min(left, BLOCK_BYTES))):
        quotes, breaks, left = quotes + data.count(b'"'), breaks + data.count(b"\n"), left - len(data)
    return Counted(quotes, breaks)


@dataclass
class Records:
    """Reads the records of a file one block after the other."""

    file: BinaryIO
    quotes: bool
    """Whether quotes keep lines together."""
    inside: bool = False
    """Whether the file's place is inside quotes."""
    line: int = 1
    longest: int = LONGEST
    """Bytes that one record may have."""

    def skip_one(self) -> bytes:
        """Reads up to the end of the record at hand."""
        found = bytearray()
        while piece := self.file.readline(self.longest):
            found += piece
            self._past(piece)
            if not self.inside or len(found) > self.longest:
                break
        return bytes(found)

    def blocks(self, length: int | None = None) -> Iterator[Block]:
        """Yields the records that begin within so many bytes of here, and the one that begins right behind them; none where
        the length is below 0, since an earlier record ends behind them.

        Raises:
            InvalidArgument: a quote is open at the end of the file, or a record is too long.
        """
        held, left = b"", length
        if left is not None and left < 0:
            return
        while left is None or left > 0:
            data = self.file.read(BLOCK_BYTES if left is None else min(left, BLOCK_BYTES))
            if not data:
                break
            left = None if left is None else left - len(data)
            held += data
            cut = self._cut(held)
            if cut:
                yield self._block(held[:cut])
                held = held[cut:]
            elif len(held) > self.longest:
                raise InvalidArgument(f"a record from line {self.line} on has more than {self.longest:,} bytes")
        self.inside = self.quotes and held.count(b'"') % 2 == 1
        rest = held + (self._to_the_end() if left is not None else b"")
        if self.inside:
            raise InvalidArgument(f"a quote that is opened on or after line {self.line} is never closed")
        if rest:
            yield self._block(rest)

    def _to_the_end(self) -> bytes:
        line, rest = self.line, self.skip_one()
        self.line = line
        return rest

    def _block(self, data: bytes) -> Block:
        made = Block(data, self.line)
        self.line += data.count(b"\n")
        return made

    def _past(self, data: bytes) -> None:
        self.line += data.count(b"\n")
        self.inside = self.inside ^ (self.quotes and data.count(b'"') % 2 == 1)

    def _cut(self, whole: bytes) -> int:
        """The end of the last record; 0 where none ends."""
        inside = self.quotes and whole.count(b'"') % 2 == 1
        end = len(whole)
        while (found := whole.rfind(b"\n", 0, end)) >= 0:
            if self.quotes:
                inside ^= whole.count(b'"', found, end) % 2 == 1
            if not inside:
                return found + 1
            end = found
        return 0


def record_lines(block: Block, quotes: bool) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The line of each record of a block, without empty lines."""
    data = np.frombuffer(block.data, np.uint8)
    breaks = np.flatnonzero(data == ord("\n"))
    ends = breaks
    if quotes:
        before = np.searchsorted(np.flatnonzero(data == ord('"')), breaks)
        ends = breaks[before % 2 == 0]
    starts = np.concatenate(([0], ends + 1))
    stops = np.concatenate((ends, [len(data)]))
    filled = (stops - starts > 1) | ((stops - starts == 1) & (data[np.minimum(starts, len(data) - 1)] != ord("\r")))
    lines: np.ndarray[Any, np.dtype[np.int64]] = block.line + np.searchsorted(breaks, starts[filled])
    return lines
