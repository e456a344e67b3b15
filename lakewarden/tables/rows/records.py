"""Cuts a file of lines into blocks of whole records. A line break inside quotes, as CSV allows it, ends no record.

A range of a large file can be read alone, if the state in which it begins was found from what is before it (`line_ends`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, Literal

import numpy as np

from lakewarden.errors import InvalidArgument

# Finds where the records of a text end: at LF, CR LF or CR alone, as common readers of CSV do, but not inside quotes.
#
# A quote opens a value only where the value begins; within one that has begun without it, it is a letter (`1,5" pipe`). Inside
# quotes, two are one. So what a place is depends on what was before it, and is one of a few states: a piece of a large file can
# be read alone once the pieces before it said in which state each of them ends.

Places = np.ndarray[Any, np.dtype[np.int64]]

State = Literal["start", "value", "quoted", "quote", "return"]
"""Of a place: where a value begins, within one, inside quotes, behind a quote inside them, behind a CR outside of them."""

STATES: tuple[State, ...] = ("start", "value", "quoted", "quote", "return")
_LF, _CR, _QUOTE = b'\n\r"'


@dataclass(frozen=True)
class RecordForm:
    """How a text is cut into records."""

    quotes: bool = True
    """Whether quotes keep lines together."""
    delimiter: bytes = b","
    blanks: bool = True
    """Whether a line of blanks alone is a record."""


CSV_LINES = RecordForm()
JSON_LINES = RecordForm(quotes=False, blanks=False)


def breaks(data: bytes) -> Places:
    """The places behind each line break. A CR at the end of the data counts, whatever follows."""
    letters = np.frombuffer(data, np.uint8)
    found = np.flatnonzero(letters == _LF) + 1
    if b"\r" not in data:
        return found
    returns = np.flatnonzero(letters == _CR) + 1
    followed = np.append(letters, 0)[returns] == _LF
    return np.union1d(found, returns[~followed])


def record_ends(data: bytes, form: RecordForm, state: State) -> Places:
    """The places behind each record that ends in the data, which begins in a state."""
    found = breaks(data)
    if form.quotes and (state == "quoted" or b'"' in data):
        places, inside = _turns(data, form, state)
        found = found[(np.searchsorted(places, found) + inside) % 2 == 0]
    return found


def state_behind(data: bytes, form: RecordForm, state: State) -> State:
    """The state at the end of the data."""
    if not data:
        return state
    if form.quotes and (state == "quoted" or b'"' in data):
        places, inside = _turns(data, form, state)
        if (len(places) + inside) % 2:
            return "quoted"
        if len(places) and places[-1] == len(data) - 1:
            return "quote"
    last = data[-1:]
    if last == b"\r":
        return "return"
    return "start" if last in (b"\n", form.delimiter) else "value"


def _turns(data: bytes, form: RecordForm, state: State) -> tuple[Places, bool]:
    """The places of quotes that lead into quotes or out of them, and whether the data begins inside."""
    letters = np.frombuffer(data, np.uint8)
    places = np.flatnonzero(letters == _QUOTE)
    inside = state == "quoted"
    if len(places) and places[0] == 0 and state in ("value", "quote"):
        places = places[1:]  # a letter; or the second of two, that are one
        inside = state == "quote"
    openings = places[int(inside) :: 2]
    before = np.append(letters, _LF)[openings - 1]  # the beginning is where a value begins, else it is a letter
    begins = (before == form.delimiter[0]) | (before == _LF) | (before == _CR)
    begins[int(not inside) :] |= before[int(not inside) :] == _QUOTE  # the second of two; the first of all is of none
    if not begins.all():
        return np.array(_turns_one_by_one(data, form, places, inside), np.int64), inside
    return places, inside


def _turns_one_by_one(data: bytes, form: RecordForm, places: Places, inside: bool) -> list[int]:
    """The same where some quotes are letters."""
    begins = (*form.delimiter, _LF, _CR)
    found: list[int] = []
    doubled = -1
    for place in places.tolist():
        if inside:
            inside = False
            found.append(place)
            doubled = place + 1
        elif place == 0 or data[place - 1] in begins or place == doubled:
            inside = True
            found.append(place)
    return found


BLOCK_BYTES = 8 << 20
"""Bytes of the blocks that are parsed at once: some 100,000 rows, and some ten times as many bytes while they are checked."""

LONGEST = 256 << 20
_LITTLE = 1 << 16
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class LineCount:
    """The line breaks of a range, and the state behind it by the one that it begins in."""

    breaks: int
    ends: Mapping[State, State]


@dataclass(frozen=True)
class RecordBlock:
    """Whole records, and the line of the first one."""

    data: bytes
    line: int


def count(file: BinaryIO, first: int, last: int, form: RecordForm) -> LineCount:
    number = 0
    ends: dict[State, State] = {state: state for state in STATES}
    file.seek(first)
    left = last - first
    if first == 0 and file.read(len(_BOM)) != _BOM:
        file.seek(0)
    left -= file.tell() - first
    while left > 0 and (data := file.read(min(left, BLOCK_BYTES))):
        left -= len(data)
        number += len(breaks(data))
        if data.endswith(b"\r") and file.read(1) == b"\n":
            number -= 1  # the LF counts, in the block or the range that has it
        file.seek(last - left)
        behind = {state: state_behind(data, form, state) for state in set(ends.values())}
        ends = {state: behind[end] for state, end in ends.items()}
    return LineCount(number, ends)


@dataclass
class Records:
    """Reads the records of a file one block after the other."""

    file: BinaryIO
    form: RecordForm
    state: State = "start"
    """At the file's place."""
    line: int = 1
    longest: int = LONGEST
    """Bytes that one record may have."""
    passed: int = 0
    """Bytes since the beginning."""
    _held: bytes = b""
    """Read ahead."""

    def skip_mark(self) -> None:
        """Passes the byte order mark of UTF-8, if there is one."""
        self._held = self._read(len(_BOM))
        if self._held == _BOM:
            self._take(len(_BOM))

    def skip_line(self) -> None:
        """Passes a line, whatever quotes it has."""
        kept, self.form = self.form, RecordForm(quotes=False, delimiter=self.form.delimiter)
        self.skip_one()
        self.form, self.state = kept, "start"

    def skip_one(self) -> bytes:
        """Reads up to the end of the record at hand.

        Raises:
            InvalidArgument: a quote is open at the end of the file.
        """
        if self.state == "return" and self._peek() == b"\n":
            return self._record(1)
        size = _LITTLE
        while True:
            ends = record_ends(self._held, self.form, self.state)
            if len(ends) and (int(ends[0]) < len(self._held) or self._held[-1:] != b"\r"):
                return self._record(int(ends[0]))
            more = self.file.read(size) if len(self._held) <= self.longest else b""
            if not more:
                return self._record(int(ends[0]) if len(ends) else len(self._held))
            self._held, size = self._held + more, 2 * size

    def blocks(self, length: int | None = None) -> Iterator[RecordBlock]:
        """Yields the records that begin within so many bytes of here, and the one that begins right behind them; none where
        the length is below 0, since an earlier record ends behind them.

        Raises:
            InvalidArgument: a quote is open at the end of the file, or a record is too long.
        """
        held, left = b"", length
        if left is not None and left < 0:
            return
        while left is None or left > 0:
            data = self._read(BLOCK_BYTES if left is None else min(left, BLOCK_BYTES))
            if not data:
                break
            left = None if left is None else left - len(data)
            held += data
            cut = self._cut(held)
            if cut:
                yield self._block(held[:cut])
                held, self.state = held[cut:], "start"
            elif len(held) > self.longest:
                raise InvalidArgument(f"a record from line {self.line} on has more than {self.longest:,} bytes")
        line, self._held = self.line, held + self._held
        rest = b"" if left is None else self._records_to(len(held))
        if left is None:
            rest = self._record(len(self._held))
        self.line = line
        if rest:
            yield self._block(rest)

    def _records_to(self, length: int) -> bytes:
        """The records that begin within so many bytes, or right behind them."""
        rest = b""
        while len(rest) <= length and (record := self.skip_one()):
            rest += record
        return rest

    def _cut(self, whole: bytes) -> int:
        """The end of the last record that ends for sure; 0 where none does."""
        ends = record_ends(whole, self.form, self.state)
        if len(ends) and ends[-1] == len(whole) and whole[-1:] == b"\r":
            ends = ends[:-1]  # an LF may follow
        return int(ends[-1]) if len(ends) else 0

    def _record(self, length: int) -> bytes:
        line, data = self.line, self._take(length)
        self.line += len(breaks(data))
        if state_behind(data, self.form, self.state) == "quoted" and not self._peek():
            raise InvalidArgument(f"a quote that is opened on or after line {line} is never closed")
        self.state = "start"
        return data

    def _block(self, data: bytes) -> RecordBlock:
        made = RecordBlock(data, self.line)
        self.line += len(breaks(data))
        return made

    def _peek(self) -> bytes:
        if not self._held:
            self._held = self.file.read(_LITTLE)
        return self._held[:1]

    def _read(self, most: int) -> bytes:
        """At most so many bytes, which are counted when they are taken."""
        found, self._held = self._held[:most], self._held[most:]
        return found or self.file.read(most)

    def _take(self, length: int) -> bytes:
        found, self._held = self._held[:length], self._held[length:]
        self.passed += len(found)
        return found


def record_lines(block: RecordBlock, form: RecordForm) -> Places:
    """The line of each record of a block, without empty lines."""
    ends = record_ends(block.data, form, "start")
    starts = np.concatenate(([0], ends))
    stops = np.concatenate((ends, [len(block.data)]))
    letters = np.append(np.frombuffer(block.data, np.uint8), 0)
    empty = (stops == starts) | np.isin(letters[starts], (_LF, _CR))
    if not form.blanks:
        empty = np.array([not block.data[start:stop].strip() for start, stop in zip(starts, stops, strict=True)])
    lines: Places = block.line + np.searchsorted(breaks(block.data), starts[~empty], side="right")
    return lines
