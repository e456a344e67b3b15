"""The index of an object with many chunks: sorted by user, in blocks, so that one user's chunks take one read.

    JSON: totals, and per block its first user, bytes and checksum · checksum of the JSON (8) · blocks

A block is the id of its object once more, as in front of each chunk, and an Arrow record batch of at most `BLOCK` chunks.
Offsets count from the end of the index, `_seq` from a base that the reader knows.
"""

from __future__ import annotations

import json
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise, repeat
from typing import Any, cast, overload
from weakref import ReferenceType, ref

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakewarden.base.arrays import numbers, texts, values
from lakewarden.errors import Corrupt
from lakewarden.log.chunk import RowRange
from lakewarden.log.position import NOTHING

# The chunks of an object with many users, in columns: nothing here loops over users.
Numbers = NDArray[np.int64]
Mask = NDArray[np.bool_]

MANY = 1024
"""Chunks from which columns cost less than a tuple of `RowRange`."""


@dataclass(frozen=True, eq=False)
class Columns(Sequence[RowRange]):
    """Chunks of one object. As a sequence it makes each `RowRange` when it is taken out."""

    key: str
    put_id: str
    users: pa.Array[Any]
    rows: Numbers
    offsets: Numbers
    lengths: Numbers
    first_seqs: Numbers
    schema_versions: Numbers
    stored_ats: Numbers

    @classmethod
    def of(cls, key: str, put_id: str, ranges: Sequence[RowRange]) -> Columns:
        if isinstance(ranges, Columns):
            return ranges
        fields = list(zip(*ranges, strict=True))[2:] if ranges else [()] * 7
        return cls(key, put_id, texts(fields[0]), *(np.array(each, np.int64) for each in fields[1:]))

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[RowRange]:
        columns = (each.tolist() for each in self._numbers)
        users = cast("list[str]", self.users.to_pylist())
        rows, *others = columns
        return map(RowRange._make, zip(repeat(self.key), repeat(self.put_id), users, rows, *others, strict=False))

    @overload
    def __getitem__(self, index: int) -> RowRange: ...
    @overload
    def __getitem__(self, index: slice) -> Columns: ...
    def __getitem__(self, index: int | slice) -> RowRange | Columns:
        if isinstance(index, slice):
            return self.taken(np.arange(len(self))[index])
        at = range(len(self))[index]
        return RowRange(self.key, self.put_id, str(self.users[at].as_py()), *(int(each[at]) for each in self._numbers))

    @property
    def last_seqs(self) -> Numbers:
        return self.first_seqs + self.rows - 1

    @property
    def _numbers(self) -> tuple[Numbers, ...]:
        """The columns behind the user's, in the order of `RowRange`."""
        return self.rows, self.offsets, self.lengths, self.first_seqs, self.schema_versions, self.stored_ats

    def taken(self, which: Numbers | Mask) -> Columns:
        """The chunks at these indices, or where the mask is true."""
        at = np.asarray(np.flatnonzero(which) if which.dtype == np.bool_ else which, np.int64)
        # A full mask keeps the order, so nothing is copied. As many indices may still be another order.
        if len(at) == len(self) and which.dtype == np.bool_:
            return self
        return Columns(self.key, self.put_id, self.users.take(numbers(at)), *(each[at] for each in self._numbers))

    def of_users(self, users: Collection[str]) -> Columns:
        """Those users' chunks."""
        return self.taken(self.has_user(users))

    def has_user(self, users: Collection[str]) -> Mask:
        """Where a chunk is one of these users'."""
        return values(pc.is_in(self.users, value_set=texts(users)))

    def settled(self, marks: Mapping[str, int]) -> Mask:
        """Where a chunk is at or below its user's mark."""
        if not marks:
            return np.zeros(len(self), np.bool_)
        found = pc.index_in(self.users, value_set=texts(marks.keys())).fill_null(len(marks)).cast(pa.int64())
        # Users without a mark get the index behind the last mark, which is `NOTHING`: none of their rows is settled.
        upto = np.array([*marks.values(), NOTHING], np.int64)[values(found)]
        return np.asarray(self.last_seqs <= upto)


BLOCK = 1024
"""Chunks of a block: some 20 KiB, about what one request to an object store is worth."""

_NUMBERS = ("rows", "offsets", "lengths", "first_seqs", "schema_versions", "stored_ats")
_TYPES: dict[str, pa.DataType] = {"users": pa.string(), **{name: pa.int64() for name in _NUMBERS}}
_SCHEMA = pa.schema(_TYPES)
_ID_BYTES = 16
_SUM_BYTES = 8

Read = Callable[[int, int], bytes]
"""Returns the bytes of the object from an offset, as many as that; raises `Missing` when another object has its name by now."""


def pack_index(
    put_id: bytes, users: Sequence[str] | pa.Array[Any], rows: Numbers, lengths: Numbers, *others: Numbers
) -> tuple[bytes, bytes]:
    """The head, and the blocks, of the index of chunks in the order of their bytes; `others` follow as in `Columns`."""
    names = pa.array(users, pa.string())
    columns = [names, *(pa.array(each) for each in (rows, np.cumsum(lengths) - lengths, lengths, *others))]
    # Only the index is sorted. The chunks stay as they came, and so does each row's `_seq`
    # (docs/decisions/0031-a-million-users-in-one-segment.md).
    table = pa.record_batch(columns, schema=_SCHEMA).take(cast("Any", pc.sort_indices(names)))
    parts = [table.slice(start, BLOCK) for start in range(0, table.num_rows, BLOCK)]
    # A block begins as a chunk does: a later segment of the same name is not taken for it.
    blocks = [put_id + message for message in _messages(parts)]
    head = {
        "chunks": len(rows),
        "rows": int(rows.sum()),
        "bytes": int(lengths.sum()),
        "firsts": [part.column(0)[0].as_py() for part in parts],
        "sizes": [len(block) for block in blocks],
        "sums": [zlib.crc32(block) for block in blocks],
    }
    text = json.dumps(head, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return text + _sum(put_id, text), b"".join(blocks)


def _messages(parts: Sequence[pa.RecordBatch]) -> Iterator[bytes]:
    """The batches as messages without their schema."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, _SCHEMA, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_batch(pa.RecordBatch.from_pylist([], schema=_SCHEMA))  # with the schema, which no block repeats
        ends = [sink.tell()]
        for part in parts:
            writer.write_batch(part)
            ends.append(sink.tell())
    data = memoryview(sink.getvalue())
    return (bytes(data[start:end]) for start, end in pairwise(ends))


def _sum(put_id: bytes, text: bytes) -> bytes:
    # With the id, so that the head of another object has another sum.
    return zlib.crc32(put_id + text).to_bytes(_SUM_BYTES, "little")


class Index:
    """The chunks of an object whose index is read block by block, when they are needed."""

    def __init__(self, key: str, put_id: str, head: bytes, start: int, base: int, read: Read) -> None:
        """
        Args:
            head: the JSON and its checksum.
            start: where the blocks begin in the object.
            base: what is added to each chunk's `_seq`.

        Raises:
            Corrupt: the head cannot be read.
        """
        self._key = key
        self._put_id = put_id
        self._base = base
        self._read = read
        # Weak: of a million chunks the columns go when no caller holds them, and the head stays.
        self._loaded: ReferenceType[Columns] | None = None
        text = head[:-_SUM_BYTES]
        if len(head) < _SUM_BYTES or head[-_SUM_BYTES:] != _sum(bytes.fromhex(put_id), text):
            raise self._damaged("its checksum is another one")
        try:
            found = json.loads(text)
            self.chunks, self.rows, self.bytes = int(found["chunks"]), int(found["rows"]), int(found["bytes"])
            self._firsts: list[str] = found["firsts"]
            self._sums: list[int] = found["sums"]
            self._ends: list[int] = list(accumulate(found["sizes"], initial=start))
        except (ValueError, KeyError, TypeError) as error:
            raise self._damaged(repr(error)) from error

    @property
    def blocks(self) -> int:
        return len(self._firsts)

    @property
    def data(self) -> int:
        """Where the chunks begin in the object."""
        return self._ends[-1]

    @property
    def end(self) -> int:
        return self.data + self.bytes

    def of_bytes(self, data: bytes) -> Columns:
        """All chunks, where the whole index is in these bytes, the object's first ones. Raises `Corrupt` as `columns`."""
        self._read = lambda start, length: data[start : start + length]
        return self.columns()

    def columns(self) -> Columns:
        """All chunks. They stay in memory as long as a caller holds them.

        Raises:
            Missing: the object was cleaned up.
            Corrupt: the index is cut off or damaged, or its totals are not those of its head.
        """
        found = self._loaded() if self._loaded is not None else None
        if found is None:
            found = self._joined(self._between(0, self.blocks), self.chunks)
            # Each block may be whole and one be missing: only the totals show an incomplete index.
            totals = (len(found), int(found.rows.sum()), int(found.lengths.sum()))
            if totals != (self.chunks, self.rows, self.bytes):
                raise self._damaged(
                    f"chunks, rows and bytes are {totals}, where its head says {(self.chunks, self.rows, self.bytes)}"
                )
            self._loaded = ref(found)
        return found

    def of_users(self, users: Collection[str]) -> Columns:
        """Those users' chunks. Reads only blocks that may have them. Raises as `columns`."""
        wanted = sorted({number for user in users for number in self._blocks_of(user)})
        # More than half of the blocks one by one costs more requests than all of them in one read.
        if 2 * len(wanted) > self.blocks or (self._loaded is not None and self._loaded() is not None):
            return self.columns().of_users(users)
        groups: list[list[int]] = []
        for number in wanted:
            if groups and groups[-1][-1] + 1 == number:
                groups[-1].append(number)
            else:
                groups.append([number])
        blocks = [block for group in groups for block in self._between(group[0], group[-1] + 1)]
        return self._joined(blocks, sum(block.num_rows for block in blocks)).of_users(users)

    def _blocks_of(self, user: str) -> range:
        """Those that may have the user's chunks; a user may have several."""
        # One block before the first that begins with the user: it may end with chunks of theirs.
        return range(max(0, bisect_left(self._firsts, user) - 1), bisect_right(self._firsts, user))

    def _between(self, first: int, last: int) -> Iterator[pa.RecordBatch]:
        start, end = self._ends[first], self._ends[last]
        data = memoryview(self._read(start, end - start))
        for number in range(first, last):
            yield self._block(number, data[self._ends[number] - start : self._ends[number + 1] - start])

    def _block(self, number: int, data: memoryview) -> pa.RecordBatch:
        if zlib.crc32(data) != self._sums[number]:
            raise self._damaged(f"the checksum of block {number} is another one")
        try:
            block = pa.ipc.read_record_batch(pa.py_buffer(data[_ID_BYTES:]), _SCHEMA)
        except (pa.ArrowInvalid, OSError) as error:
            raise self._damaged(f"block {number}: {error}") from error
        # A block with a right sum in the wrong place would say that users have nothing.
        if not block.num_rows or block.column(0)[0].as_py() != self._firsts[number]:
            raise self._damaged(f"block {number} does not begin with {self._firsts[number]!r}")
        return block

    def _joined(self, blocks: Iterable[pa.RecordBatch], most: int) -> Columns:
        """The chunks of the blocks, of which `most` are expected. What a block is decoded to goes before the next one is."""
        users, found, count = [texts(())], [np.empty(most, np.int64) for _ in _NUMBERS], 0
        for block in blocks:
            end = count + block.num_rows
            if end > most:
                raise self._damaged(f"there are more chunks than the {most} that its head counts")
            # Into arrays of the whole size: a list of decoded blocks would take the memory twice.
            for whole, part in zip(found, block.columns[1:], strict=True):
                whole[count:end] = values(part)
            users.append(block.column(0))
            count = end
        rows, offsets, lengths, seqs, versions, stored = (whole[:count] for whole in found)
        offsets += self.data
        seqs += self._base
        return Columns(self._key, self._put_id, pa.concat_arrays(users), rows, offsets, lengths, seqs, versions, stored)

    def _damaged(self, why: str) -> Corrupt:
        return Corrupt(f"the index of {self._key} cannot be read: {why}")
