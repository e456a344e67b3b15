"""The objects of floors: how they are named and encoded, and what the head of one says without reading the rest."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec
import numpy as np
import pyarrow as pa

from lakewarden.base.arrays import numbers
from lakewarden.base.recent import Recent
from lakewarden.base.threads import at_once
from lakewarden.catalog.state.floor_entries import NEVER, SCHEMA, KnownScopes, Numbers
from lakewarden.errors import Corrupt
from lakewarden.storage.objects import ObjectStore

# Blocks: how a large object of a floor is read for a few scopes.
#
# The notes are sorted by keyed hash, in record batches of as many scopes each. The head says with which hash each of them
# begins, and how many bytes a full one has; so it follows where a scope's is.

SCOPES = 1024
"""Of a block, at least: 120 KB, about what one request to an object store is worth."""

MOST = 2048
"""Blocks of an object: their first hashes take half of what is read of it for its head."""

_DIGITS = 8
"""Of a hash in the head."""

_END = b"\xff\xff\xff\xff\x00\x00\x00\x00"


@dataclass(frozen=True)
class Blocks:
    """What a head says of its object's blocks."""

    firsts: str
    """The beginnings of the blocks' first hashes, one after the other."""
    size: int
    """Bytes of each block but the last."""

    def __len__(self) -> int:
        return len(self.firsts) // _DIGITS

    def begins(self, number: int, mark: str) -> bool:
        """Whether that block begins with the scope."""
        return self.firsts[number * _DIGITS : (number + 1) * _DIGITS] == mark[:_DIGITS]

    def numbers(self, marks: Collection[str]) -> list[int]:
        """Those that may have the scopes: with a hash that begins as a block's first, that block and the one before."""
        firsts = [self.firsts[at : at + _DIGITS] for at in range(0, len(self.firsts), _DIGITS)]
        begins = [mark[:_DIGITS] for mark in marks]
        found = [range(max(bisect_left(firsts, each) - 1, 0), bisect_right(firsts, each)) for each in begins]
        return sorted(set().union(*found))


def packed(table: pa.Table, head: Callable[[Blocks | None], pa.Schema]) -> bytes:
    """A table as a stream of Arrow, in blocks where it has many rows. `head` makes the schema that describes them."""
    # A bounded number of blocks, so that their first hashes fit what is read for the head.
    rows = max(SCOPES, -(-table.num_rows // MOST))
    batches = [_copied(batch) for batch in table.combine_chunks().to_batches(max_chunksize=rows)]
    messages = [batch.serialize() for batch in batches]
    sizes = {len(message) for message in messages[:-1]}
    said = None
    # The head has one size for all: with columns of fixed width and copied slices, full blocks are equally long.
    if len(sizes) == 1:
        firsts = "".join(batch.column(0)[0].as_py().hex()[:_DIGITS] for batch in batches)
        said = Blocks(firsts, sizes.pop())
    return b"".join([head(said).serialize(), *messages, _END])


def _copied(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Of a slice at the start of a table, all flags of the table would be encoded: it would have another size than the others."""
    return batch.take(numbers(np.arange(batch.num_rows)))


class BlockCache:
    """Blocks that were read, of all objects of a floor."""

    def __init__(self, most: int = MOST // 2) -> None:
        self._read: Recent[tuple[str, int], KnownScopes] = Recent(most)

    def of(self, key: str, numbers: Sequence[int], read: Callable[[int], KnownScopes]) -> list[KnownScopes]:
        """These blocks of an object; those that are not known are `read`, some at once."""
        found = {number: block for number in numbers if (block := self._read.get((key, number))) is not None}
        missing = [number for number in numbers if number not in found]
        for number, block in zip(missing, at_once(read, missing), strict=True):
            found[number] = block
            self._read.put((key, number), block)
        return [found[number] for number in numbers]


_STORAGES = b"storages"
_ABSORBED = b"absorbed"
_SUMMARY = b"summary"
_BLOCKS = b"blocks"

_HEAD = 64 << 10
"""Bytes that are read of an object for its head: enough for the schema and what is said in it."""

_FEW = 4
"""Rules that a summary lists; a table has one, and a second while the settings change."""


@dataclass(frozen=True)
class Summary:
    """What holds for all scopes of an object together: enough to see that none of them needs maintenance."""

    scopes: int
    looked_at: int
    """The earliest; `UNSEEN` when one was not looked at."""
    compacted: tuple[int, ...] | None
    """The different rules; None when there are many."""
    optimized: tuple[int, ...] | None
    dead_since: int
    """The earliest."""
    log_since: int
    """The earliest."""

    @classmethod
    def of(cls, scopes: KnownScopes) -> Summary:
        return cls(
            len(scopes),
            _lowest(scopes["looked_at"]),
            _few(scopes["compacted"]),
            _few(scopes["optimized"]),
            _lowest(scopes["dead_since"]),
            _lowest(scopes["log_since"]),
        )


@dataclass(frozen=True)
class FloorHead:
    """What an object says besides its notes."""

    storages: Mapping[str, int] = field(default_factory=dict)
    """By storage id, the position that its writer saw in the floor there."""
    absorbed: tuple[str, ...] = ()
    """Names of objects whose notes it has, as far as another one may still count on them (`catalog.state.floor_summaries`)."""
    summary: Summary | None = None
    """None in objects of earlier releases."""
    blocks: Blocks | None = None
    """None in small objects, and in those of earlier releases."""
    bytes: int = 0
    """Of the head."""
    columns: int = 0
    """How many there are in each block."""


@dataclass(frozen=True)
class FloorPart:
    """One object, read whole."""

    scopes: KnownScopes
    head: FloorHead


def encoded(scopes: KnownScopes, storages: Mapping[str, int], absorbed: Iterable[str]) -> bytes:
    said = {
        _STORAGES: msgspec.json.encode(dict(storages)),
        _ABSORBED: msgspec.json.encode(sorted(absorbed)),
        _SUMMARY: msgspec.json.encode(Summary.of(scopes)),
    }

    table = scopes.shortest

    def head(blocks: Blocks | None) -> pa.Schema:
        more = {} if blocks is None else {_BLOCKS: msgspec.json.encode(blocks)}
        return table.schema.with_metadata(said | more)

    return packed(table, head)


def read_part(store: ObjectStore, key: str) -> FloorPart:
    """Raises:
    Missing: it was merged into another object.
    Corrupt: it cannot be read.
    """
    data = store.get(key)
    try:
        with pa.ipc.open_stream(pa.BufferReader(data)) as reader:
            table = reader.read_all()
        # Opening a stream checks no buffers.
        table.validate()
        return FloorPart(KnownScopes(table), _head(table.schema))
    except (pa.ArrowException, ValueError, KeyError, TypeError, OSError) as error:
        raise unreadable(store, key, error) from error


def read_head(store: ObjectStore, key: str) -> FloorHead:
    """Raises as `read_part`."""
    # The schema of an Arrow stream comes first, and everything the head says is in its metadata.
    data = store.get_range(key, 0, _HEAD)
    try:
        return replace(_head(pa.ipc.read_schema(pa.py_buffer(data))), bytes=8 + int.from_bytes(data[4:8], "little"))
    except (pa.ArrowException, ValueError, KeyError, TypeError, OSError) as error:
        raise unreadable(store, key, error) from error


def read_block(store: ObjectStore, key: str, head: FloorHead, number: int) -> KnownScopes:
    """The notes of one block of an object with this head. Raises as `read_part`."""
    assert head.blocks is not None, "an object in blocks"
    size = head.blocks.size
    data = store.get_range(key, head.bytes + number * size, size)
    try:
        schema = pa.schema(list(SCHEMA)[: head.columns])  # the first ones, of an object with so many
        found = KnownScopes(pa.Table.from_batches([pa.ipc.read_record_batch(pa.py_buffer(data), schema)]))
        # Another block in its place would say that scopes are not known.
        if not head.blocks.begins(number, found.mark(0)):
            raise ValueError(f"block {number} begins with {found.mark(0)}")
        return found
    except (pa.ArrowException, ValueError, IndexError, KeyError, TypeError, OSError) as error:
        raise unreadable(store, key, error) from error


def unreadable(store: ObjectStore, key: str, error: Exception) -> Corrupt:
    return Corrupt(f"{store.uri}/{key} cannot be read: {error}; lakewarden repair rebuilds it from its copy")


def is_part(key: str) -> bool:
    # Sums and lists are kept beside the parts, under names that do not begin with a position.
    return key.rpartition("/")[2][:20].isdecimal()


def position_in(key: str) -> int:
    """Reads a position from a name, which begins with the number of settled positions: one more than the last."""
    return int(key.rpartition("/")[2][:20]) - 1


def highest(positions: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Returns the highest position by storage id."""
    found: dict[str, int] = {}
    for each in positions:
        for storage_id, position in each.items():
            found[storage_id] = max(position, found.get(storage_id, position))
    return found


def _head(schema: pa.Schema) -> FloorHead:
    said = schema.metadata or {}
    return FloorHead(
        msgspec.json.decode(said.get(_STORAGES, b"{}"), type=dict[str, int]),
        msgspec.json.decode(said.get(_ABSORBED, b"[]"), type=tuple[str, ...]),
        msgspec.json.decode(said.get(_SUMMARY, b"null"), type=Summary | None),
        msgspec.json.decode(said.get(_BLOCKS, b"null"), type=Blocks | None),
        columns=len(schema),
    )


def _lowest(column: Numbers) -> int:
    return int(column.min()) if len(column) else NEVER


def _few(column: Numbers) -> tuple[int, ...] | None:
    found = np.unique(column)
    return tuple(map(int, found)) if len(found) <= _FEW else None
