"""Reads segments and carry objects (`objects.pack` says how they lie in bytes): headers, and chunks by their ranges."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate, repeat, takewhile
from typing import Any, NamedTuple

import numpy as np

from lakewarden.base.arrays import texts
from lakewarden.errors import Corrupt, Unsupported
from lakewarden.log.chunk import MOST_BEHIND, Payload, RowRange, is_odd, metadata_behind
from lakewarden.log.objects import names
from lakewarden.log.objects.header import ID_BYTES, NO_KEYS, UNKNOWN, BatchIdentity, Header, counted_in, link_to
from lakewarden.log.objects.index import MANY, Columns, Index
from lakewarden.log.objects.pack import (
    AROUND,
    FIXED,
    LINKED,
    MAGICS,
    NAMING,
    NAMING_USERS,
    OF_ROWS,
    SUM_BYTES,
    WITH_INDEX,
    sealed,
    stripped,
)
from lakewarden.log.position import NOTHING, seq_of
from lakewarden.storage.objects import Missing, ObjectStore
from lakewarden.storage.sums import is_whole

_FORMATS = {magic: number for number, magic in MAGICS.items()}

_FIRST_READ = 64 << 10
"""Holds the header of some 2,000 users: most segments need one read."""

_TINY = 4 << 10
"""Bytes of an object that stays with its header: that costs less memory than another read of it costs."""


def read_put_id(store: ObjectStore, key: str) -> str:
    """Whose put made the object. Raises `Missing`."""
    return _read_fixed(store, key).put_id


def read_link(store: ObjectStore, key: str) -> str:
    """The link to a segment. Raises `Missing`."""
    fixed = _read_fixed(store, key)
    return link_to(fixed.put_id, fixed.rows)


def _read_fixed(store: ObjectStore, key: str) -> _Fixed:
    # 48 bytes: all that a link, or a put whose answer was lost, needs.
    return _fixed(key, store.get_range(key, 0, FIXED.size + ID_BYTES))


def read_segment(store: ObjectStore, key: str, position: int) -> Header:
    """A segment's header, without its rows. Raises `Missing`."""
    fixed, data = _read_header(store, key)
    if fixed.kind == WITH_INDEX:
        return Header(key, fixed.put_id, _index(store, key, fixed, data, seq_of(position, 0)), fixed.after)
    return _segment(key, position, fixed, data)


def own_segment(key: str, position: int, data: bytes) -> Header | None:
    """The header of a segment that was just put; None where it has an index, which is read when it is needed."""
    fixed = _fixed(key, data)
    return None if fixed.kind == WITH_INDEX else _segment(key, position, fixed, data)


def _segment(key: str, position: int, fixed: _Fixed, data: bytes) -> Header:
    found = _decoded(key, fixed, data)
    try:
        version, stored_at, rows = found["version"], found["stored_at"], found["rows"]
        firsts, keys = accumulate(rows, initial=seq_of(position, 0)), found.get("keys", NO_KEYS)
        if fixed.kind in (NAMING, NAMING_USERS):
            writer, batch = found.get("once", ("", NOTHING))
            published = BatchIdentity(writer, batch) if writer else None
            return Header(
                key, fixed.put_id, tuple(_staged(key, fixed, found, firsts)), fixed.after, published=published, keys=keys
            )
        columns = (found["users"], rows, _offsets(fixed.end, found["lengths"]), found["lengths"], firsts)
        ranges = _ranges(key, fixed, len(rows), *columns, repeat(version), repeat(stored_at))
    except (KeyError, TypeError) as error:
        raise _unreadable(key, error) from error
    return Header(key, fixed.put_id, ranges, fixed.after, keys=keys)


def _staged(key: str, fixed: _Fixed, found: Mapping[str, Any], firsts: Iterable[int]) -> Iterator[RowRange]:
    """The chunks of the batch that a segment names."""
    users, log_id = found["users"], names.log_of(key)
    owners = repeat(users[0]) if fixed.kind == NAMING else users
    columns = (found[name] for name in ("objects", "rows", "offsets", "lengths"))
    for user, number, rows, offset, length, first in zip(owners, *columns, firsts, strict=False):
        where = names.staged_key(log_id, fixed.put_id, number)
        yield RowRange(where, fixed.put_id, user, rows, offset, length, first, found["version"], found["stored_at"])


def read_carry(store: ObjectStore, key: str) -> Header:
    """A carry object's header, without its rows. Raises `Missing`."""
    fixed, data = _read_header(store, key)
    if fixed.kind == WITH_INDEX:
        return Header(key, fixed.put_id, _index(store, key, fixed, data, 0))
    return _carry(key, fixed, data)


def tiny_carry(key: str, data: bytes) -> Header | None:
    """The header of a carry object that was just made, if the object is tiny and has no index."""
    fixed = _fixed(key, data)
    return _carry(key, fixed, data) if _if_tiny(data) and fixed.kind == OF_ROWS else None


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
        return tuple(map(partial(RowRange, key, fixed.put_id), users, *numbers))
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
    # Two counts, written apart: an index that misses chunks would read as users without rows.
    if fixed.rows is not None and fixed.rows != index.rows:
        raise Corrupt(f"the index of {key} cannot be read: it counts {index.rows} rows of {fixed.rows}")
    # The first read may have brought all blocks: then no request follows.
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
        # Else all of it is read once more, and not the rest alone: between two reads another segment may get the name.
        if fixed.end <= length:
            return fixed, data
        length = fixed.end


def _decoded(key: str, fixed: _Fixed, data: bytes) -> dict[str, Any]:
    header = data[fixed.start : fixed.end]
    if not is_whole(header, data[: fixed.start]):
        raise Corrupt(f"the header of {key} is garbled: its checksum is another one")
    try:
        found: dict[str, Any] = json.loads(header)
    except ValueError as error:
        raise _unreadable(key, error) from error
    return found


def _fixed(key: str, data: bytes) -> _Fixed:
    number = _FORMATS.get(data[:8])
    # Format 1, and carry, have no link.
    start = FIXED.size + (ID_BYTES if number == LINKED else 0)
    if number is None or len(data) < start:
        raise Corrupt(f"{key} is not a segment of the write log: it does not begin as one does, but with {data[:8]!r}")
    _, length, kind, rows, unique = FIXED.unpack_from(data)
    if kind not in (OF_ROWS, WITH_INDEX, NAMING, NAMING_USERS):
        # A later release writes a sum; a bit that turned over in the kind must not send the operator looking for one.
        if not is_whole(data[start : start + length], data[:start], needed=True):
            raise Corrupt(f"{key} is garbled: it has kind {kind}, and its header has no checksum, or another one")
        raise Unsupported(f"{key} was written by a later release of Lakewarden (its kind is {kind}); read it with that one")
    after = data[FIXED.size : start].hex() or UNKNOWN
    return _Fixed(kind, unique.hex(), counted_in(rows), after, start, start + length)


def _unreadable(key: str, error: Exception) -> Corrupt:
    return Corrupt(f"the header of {key} cannot be read: {error!r}")


def read_chunk(store: ObjectStore, where: RowRange, keep: Callable[[RowRange, bytes], object] | None = None) -> memoryview:
    """A chunk's rows, as they were encoded. Its bytes go to `keep`, if they are whole.

    Raises:
        Missing: the object was cleaned away; so too when another one has its name by now.
        Corrupt: it is cut off or garbled.
    """
    data = store.get_range(where.key, where.offset, where.length)
    rows = _checked(store, where, memoryview(data))
    if keep is not None:
        keep(where, data)
    return rows


def may_have_metadata(where: RowRange) -> bool:
    """Whether a caller's metadata stands behind the chunk's rows, by its length alone."""
    return is_odd(where.length - AROUND)


def read_metadata(store: ObjectStore, where: RowRange) -> str:
    """The metadata behind a chunk's rows, without a read of the rows. Raises `Missing` as `read_chunk`."""
    # Metadata is at the end of the chunk and bounded, so the rows need not be read.
    length = min(where.length, MOST_BEHIND + SUM_BYTES)
    end = store.get_range(where.key, where.offset + where.length - length, length)
    # The end of a chunk does not say whose it is, unlike its beginning; so the object is looked at.
    if read_put_id(store, where.key) != where.put_id:
        raise Missing(where.key)
    return metadata_behind(memoryview(end)[:-SUM_BYTES])


def read_chunks(store: ObjectStore, wanted: Sequence[RowRange], apart: int = 0) -> Iterator[memoryview]:
    """Chunks, those of one object in the order of their offsets; neighbours are read at once.

    Args:
        apart: up to this many bytes between two neighbours are read, too.
    """
    for each, data in _parts(store, wanted, None, apart):
        yield _checked(store, each, data)


Held = Callable[[RowRange], Payload]
"""Returns the bytes of a chunk that are in memory; none of any other."""


def copied_chunks(store: ObjectStore, wanted: Sequence[RowRange], held: Held | None = None) -> Iterator[Payload]:
    """The same with their sums, to be put elsewhere. What is garbled stays so: it is of one user, and no reason to let the rows
    of all others lie.

    Raises:
        Missing, Corrupt: the object was cleaned away, or is cut off.
    """
    for each, data in _parts(store, wanted, held):
        # The chunk's own id may be what is garbled: the object tells then whether it is still the same.
        is_own = data[:ID_BYTES] == bytes.fromhex(each.put_id) or read_put_id(store, each.key) == each.put_id
        if not is_own or len(data) < each.length:
            _checked(store, each, data)
        yield sealed(data[ID_BYTES:])


def _parts(
    store: ObjectStore, wanted: Sequence[RowRange], held: Held | None, apart: int = 0
) -> Iterator[tuple[RowRange, memoryview]]:
    """The bytes of chunks, as they are."""
    for group in _neighbours(wanted, apart):
        start, end = group[0].offset, group[-1].offset + group[-1].length
        # One that is not held is reason enough: a request brings all of them.
        parts = [] if held is None else list(takewhile(len, map(held, group)))
        data = memoryview(b"".join(parts) if len(parts) == len(group) else store.get_range(group[0].key, start, end - start))
        for each in group:
            yield each, data[each.offset - start : each.offset - start + each.length]


def _neighbours(wanted: Sequence[RowRange], apart: int) -> list[list[RowRange]]:
    groups: list[list[RowRange]] = []
    for each in wanted:
        before = groups[-1][-1] if groups else None
        if before is not None and before.key == each.key and 0 <= each.offset - before.offset - before.length <= apart:
            groups[-1].append(each)
        else:
            groups.append([each])
    return groups


def _checked(store: ObjectStore, where: RowRange, data: memoryview) -> memoryview:
    """Raises as `read_chunk`."""
    lost = f"rows of {where.user!r} that its header names are not in it"
    rows = stripped(memoryview(_whole(store, where.key, where.put_id, data, where.length, lost))[ID_BYTES:])
    if rows is None:
        raise Corrupt(f"{where.key} is garbled: the checksum of rows of {where.user!r} is another one")
    return rows


def _whole(store: ObjectStore, key: str, put_id: str, data: Payload, length: int, lost: str) -> Payload:
    """A part of an object, which begins with the id of its put.

    Raises:
        Missing: another object has the name by now.
        Corrupt: the object is cut off, and `lost` says what is not in it; or it is garbled.
    """
    if len(data) == length and data[:ID_BYTES] == bytes.fromhex(put_id):
        return data
    if read_put_id(store, key) != put_id:
        raise Missing(key)
    raise Corrupt(f"{key} is cut off: {lost}" if len(data) < length else f"{key} is garbled: a part has another object's id")
