"""How segments and carry objects lie in bytes. What a chunk's rows look like inside is `record`'s affair.

    magic (8) · length of the header (4) · kind (1) · rows (3) · unique id of the put (16) · link (16) · header · chunks

The link says whose put made the segment at the position before, and how many rows that one has; zeros where its writer did
not know. Segments of format 1, and carry objects, have no link, and zeros for kind and rows. The only kind so far is 0: rows.

The header is JSON, padded with spaces to eight bytes: per chunk its user, rows and bytes. A chunk is the id of its
object once more (a writer that came too late may have put another object under the same name: whoever reads a range
must notice) and the rows of one user. A user may have several chunks.

A segment's rows have the `_seq` that follows from its position and their ordinal. A carry object holds chunks of
several segments as they were, each with the `_seq` of its first row.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, repeat
from typing import Any, NamedTuple

import msgspec
import numpy as np

from lakewarden.arrays import texts
from lakewarden.errors import Corrupt, Unsupported
from lakewarden.log.chunk import Chunk, Payload, RowRange
from lakewarden.log.objects.columns import MANY, Columns, Numbers
from lakewarden.log.objects.header import ID_BYTES, UNKNOWN, Header, counted, counted_in, link_to
from lakewarden.log.objects.index import Index, pack_index
from lakewarden.log.position import seq_of
from lakewarden.storage.objects import Missing, ObjectStore

LINKED = 2
"""The format whose segments name their predecessors; 1 is that of warehouses made before it."""

INDEXED = 3
"""The format whose segments and carry objects with many chunks have an index. Those with few are as in the one before."""

_ROWS = 0
_INDEXED = 1
_FIXED = struct.Struct("<8sIB3s16s")
_MAGICS = {1: b"LWLOG\x001\n", LINKED: b"LWLOG\x002\n"}
_FORMATS = {magic: number for number, magic in _MAGICS.items()}

_FIRST_READ = 64 << 10
"""Holds the header of some 2,000 users: most segments need one read."""

_TINY = 4 << 10
"""Bytes of an object that stays with its header: that costs less memory than another read of it costs."""


class Carried(NamedTuple):
    """A chunk that moves from a segment into a carry object, with what it was given when it was appended."""

    user: str
    rows: int
    data: Payload
    first_seq: int
    schema_version: int
    stored_at: int


def pack_segment(
    put_id: str,
    schema_version: int,
    stored_at: int,
    chunks: Sequence[Chunk],
    *,
    after: str = UNKNOWN,
    segment_format: int = INDEXED,
) -> bytes:
    """A segment's bytes; `stored_at` in microseconds since the epoch, by the writer's clock.

    Args:
        after: the link to the segment at the position before.
        segment_format: 1 leaves `after` out; 3 gives many chunks an index.
    """
    data = [chunk.data for chunk in chunks]
    linked = segment_format >= LINKED
    start = _Start(min(segment_format, LINKED), put_id, bytes.fromhex(after) if linked else b"")
    if segment_format >= INDEXED and len(chunks) >= MANY:
        rows = np.fromiter((chunk.rows for chunk in chunks), np.int64, len(chunks))
        constant = (np.full(len(chunks), each, np.int64) for each in (schema_version, stored_at))
        return start.indexed([chunk.user for chunk in chunks], rows, data, np.cumsum(rows) - rows, *constant)
    header = {"version": schema_version, "stored_at": stored_at, **_columns(chunks)}
    return start.joined(header, data, counted(sum([chunk.rows for chunk in chunks])) if linked else counted(None))


def pack_carry(put_id: str, chunks: Sequence[Carried], segment_format: int = INDEXED) -> bytes:
    """A carry object's bytes."""
    data = [chunk.data for chunk in chunks]
    start = _Start(1, put_id, b"")
    if segment_format >= INDEXED and len(chunks) >= MANY:
        users, rows, _, *numbers = zip(*chunks, strict=True)
        return start.indexed(users, np.array(rows), data, *(np.array(each, np.int64) for each in numbers))
    header = {
        **_columns(chunks),
        "first_seqs": [chunk.first_seq for chunk in chunks],
        "versions": [chunk.schema_version for chunk in chunks],
        "stored_ats": [chunk.stored_at for chunk in chunks],
    }
    return start.joined(header, data, counted(None))


def _columns(chunks: Sequence[Chunk] | Sequence[Carried]) -> dict[str, object]:
    return {
        "users": [chunk.user for chunk in chunks],
        "rows": [chunk.rows for chunk in chunks],
        "lengths": [len(chunk.data) + ID_BYTES for chunk in chunks],
    }


class _Start(NamedTuple):
    """What an object begins with."""

    format: int
    put_id: str
    link: bytes

    def joined(self, header: dict[str, object], data: Sequence[Payload], rows: bytes) -> bytes:
        text = msgspec.json.encode(header)
        return self._object(_ROWS, text + b" " * (-len(text) % 8), rows, data)

    def indexed(self, users: Sequence[str], rows: Numbers, data: Sequence[Payload], *others: Numbers) -> bytes:
        lengths = np.fromiter((len(each) + ID_BYTES for each in data), np.int64, len(data))
        head, blocks = pack_index(bytes.fromhex(self.put_id), users, rows, lengths, *others)
        return self._object(_INDEXED, head, counted(int(rows.sum())), data, blocks)

    def _object(self, kind: int, header: bytes, rows: bytes, data: Sequence[Payload], blocks: bytes = b"") -> bytes:
        unique = bytes.fromhex(self.put_id)
        parts: list[Payload] = [_FIXED.pack(_MAGICS[self.format], len(header), kind, rows, unique), self.link, header, blocks]
        for each in data:
            parts += (unique, each)
        return b"".join(parts)


def read_put_id(store: ObjectStore, key: str) -> str:
    """Whose put made the object. Raises `Missing`."""
    return _read_fixed(store, key).put_id


def read_link(store: ObjectStore, key: str) -> str:
    """The link to a segment. Raises `Missing`."""
    fixed = _read_fixed(store, key)
    return link_to(fixed.put_id, fixed.rows)


def _read_fixed(store: ObjectStore, key: str) -> _Fixed:
    return _fixed(key, store.get_range(key, 0, _FIXED.size + ID_BYTES))


def read_segment(store: ObjectStore, key: str, position: int) -> Header:
    """A segment's header, without its rows. Raises `Missing`."""
    fixed, data = _read_header(store, key)
    if fixed.kind == _INDEXED:
        return Header(key, fixed.put_id, _index(store, key, fixed, data, seq_of(position, 0)), fixed.after)
    found = _decoded(key, fixed, data)
    try:
        version, stored_at, rows = found["version"], found["stored_at"], found["rows"]
        firsts = accumulate(rows, initial=seq_of(position, 0))
        columns = (found["users"], rows, _offsets(fixed.end, found["lengths"]), found["lengths"], firsts)
        ranges = _ranges(key, fixed, len(rows), *columns, repeat(version), repeat(stored_at))
    except (KeyError, TypeError) as error:
        raise _unreadable(key, error) from error
    return Header(key, fixed.put_id, ranges, fixed.after, _if_tiny(data))


def read_carry(store: ObjectStore, key: str) -> Header:
    """A carry object's header, without its rows. Raises `Missing`."""
    fixed, data = _read_header(store, key)
    if fixed.kind == _INDEXED:
        return Header(key, fixed.put_id, _index(store, key, fixed, data, 0))
    return _carry(key, fixed, data)


def tiny_carry(key: str, data: bytes) -> Header | None:
    """The header of a carry object that was just made, if the object is tiny."""
    return _carry(key, _fixed(key, data), data) if _if_tiny(data) else None


def _carry(key: str, fixed: _Fixed, data: bytes) -> Header:
    found = _decoded(key, fixed, data)
    try:
        names = ("users", "rows", "lengths", "first_seqs", "versions", "stored_ats")
        users, rows, lengths, firsts, versions, stored = (found[name] for name in names)
        ranges = _ranges(key, fixed, len(rows), users, rows, _offsets(fixed.end, lengths), lengths, firsts, versions, stored)
    except (KeyError, TypeError) as error:
        raise _unreadable(key, error) from error
    return Header(key, fixed.put_id, ranges, tiny=_if_tiny(data))


def _if_tiny(data: bytes) -> bytes:
    """The first bytes of an object where they are all of it, and few."""
    return data if len(data) <= _TINY else b""


def _ranges(
    key: str, fixed: _Fixed, chunks: int, users: Sequence[str], *numbers: Iterable[int]
) -> tuple[RowRange, ...] | Columns:
    if chunks < MANY:
        return tuple(RowRange(key, fixed.put_id, *each) for each in zip(users, *numbers, strict=False))
    arrays = (np.fromiter(each, np.int64, chunks) for each in numbers)
    return Columns(key, fixed.put_id, texts(users), *arrays)


def _offsets(start: int, lengths: list[int]) -> Iterator[int]:
    return accumulate(lengths, initial=start)


def _index(store: ObjectStore, key: str, fixed: _Fixed, data: bytes, base: int) -> Index | Columns:
    """An index, or its columns where all of them were read with its head."""

    def read(start: int, length: int) -> bytes:
        found = store.get_range(key, start, length)
        return bytes(_whole(store, key, fixed.put_id, found, length, "its index ends before its last block"))

    index = Index(key, fixed.put_id, data[fixed.start : fixed.end], fixed.end, base, read)
    if fixed.rows is not None and fixed.rows != index.rows:
        raise Corrupt(f"the index of {key} cannot be read: it counts {index.rows} rows of {fixed.rows}")
    return index if len(data) < index.data else index.of_bytes(data)


class _Fixed(NamedTuple):
    kind: int
    put_id: str
    rows: int | None
    after: str
    start: int
    """Where the header begins."""
    end: int


def _read_header(store: ObjectStore, key: str) -> tuple[_Fixed, bytes]:
    """Returns the first bytes of the object, with the whole header, in one piece: another object may get its name meanwhile."""
    length = _FIRST_READ
    while True:
        data = store.get_range(key, 0, length)
        fixed = _fixed(key, data)
        if fixed.end <= length:
            return fixed, data
        length = fixed.end


def _decoded(key: str, fixed: _Fixed, data: bytes) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(data[fixed.start : fixed.end])
    except ValueError as error:
        raise _unreadable(key, error) from error
    return found


def _fixed(key: str, data: bytes) -> _Fixed:
    number = _FORMATS.get(data[:8])
    start = _FIXED.size + (ID_BYTES if number == LINKED else 0)
    if number is None or len(data) < start:
        raise Corrupt(f"{key} is not a segment of the write log: it does not begin as one does, but with {data[:8]!r}")
    _, length, kind, rows, unique = _FIXED.unpack_from(data)
    if kind not in (_ROWS, _INDEXED):
        raise Unsupported(f"{key} was written by a later release of Lakewarden (its kind is {kind}); read it with that one")
    after = data[_FIXED.size : start].hex() or UNKNOWN
    return _Fixed(kind, unique.hex(), counted_in(rows), after, start, start + length)


def _unreadable(key: str, error: Exception) -> Corrupt:
    return Corrupt(f"the header of {key} cannot be read: {error!r}")


def read_chunk(store: ObjectStore, where: RowRange) -> memoryview:
    """A chunk's rows, as they were encoded.

    Raises:
        Missing: the object was cleaned away; so too when another one has its name by now.
        Corrupt: it is cut off.
    """
    return _checked(store, where, memoryview(store.get_range(where.key, where.offset, where.length)))


def read_chunks(store: ObjectStore, wanted: Sequence[RowRange], tiny: bytes = b"") -> Iterator[memoryview]:
    """Chunks of one object in the order of their offsets; neighbours are read at once.

    `tiny` is the object, where its header came with all of it. For copies within the log, which count only if the next cut does:
    who commits rows to a table has to see that they are still there.
    """
    for group in _neighbours(wanted):
        start, end = group[0].offset, group[-1].offset + group[-1].length
        data = memoryview(tiny[start:end] or store.get_range(group[0].key, start, end - start))
        for each in group:
            yield _checked(store, each, data[each.offset - start : each.offset - start + each.length])


def _neighbours(wanted: Sequence[RowRange]) -> list[list[RowRange]]:
    groups: list[list[RowRange]] = []
    for each in wanted:
        if groups and groups[-1][-1].offset + groups[-1][-1].length == each.offset:
            groups[-1].append(each)
        else:
            groups.append([each])
    return groups


def _checked(store: ObjectStore, where: RowRange, data: memoryview) -> memoryview:
    lost = f"rows of {where.user!r} that its header names are not in it"
    return memoryview(_whole(store, where.key, where.put_id, data, where.length, lost))[ID_BYTES:]


def _whole(store: ObjectStore, key: str, put_id: str, data: Payload, length: int, lost: str) -> Payload:
    """A part of an object, which begins with the id of its put.

    Raises:
        Missing: another object has the name by now.
        Corrupt: the object is cut off; `lost` says what is not in it.
    """
    if len(data) == length and data[:ID_BYTES] == bytes.fromhex(put_id):
        return data
    if len(data) < length and read_put_id(store, key) == put_id:
        raise Corrupt(f"{key} is cut off: {lost}")
    raise Missing(key)
