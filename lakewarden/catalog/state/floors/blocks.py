"""Blocks: how a large object of a floor is read for a few scopes.

The notes are sorted by keyed hash, in record batches of as many scopes each. The head says with which hash each of them
begins, and how many bytes a full one has; so it follows where a scope's is.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakewarden.base.arrays import numbers
from lakewarden.catalog.state.floors.known_scopes import SCHEMA, KnownScopes

SCOPES = 1024
"""Of a block, at least: 120 KB, about what one request to an object store is worth."""

MOST = 2048
"""Blocks of an object: their first hashes take half of what is read of it for its head."""

_DIGITS = 8
"""Of a hash in the head."""

_AT_ONCE = 8

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
    rows = max(SCOPES, -(-table.num_rows // MOST))
    batches = [_copied(batch) for batch in table.combine_chunks().to_batches(max_chunksize=rows)]
    messages = [batch.serialize() for batch in batches]
    sizes = {len(message) for message in messages[:-1]}
    said = None
    if len(sizes) == 1:
        firsts = "".join(batch.column(0)[0].as_py().hex()[:_DIGITS] for batch in batches)
        said = Blocks(firsts, sizes.pop())
    return b"".join([head(said).serialize(), *messages, _END])


def _copied(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Of a slice at the start of a table, all flags of the table would be encoded: it would have another size than the others."""
    return batch.take(numbers(np.arange(batch.num_rows)))


def block_in(data: bytes, columns: int) -> KnownScopes:
    """Of an object with so many columns, the first ones. Raises what Arrow raises where it cannot be read."""
    schema = pa.schema(list(SCHEMA)[:columns])
    return KnownScopes(pa.Table.from_batches([pa.ipc.read_record_batch(pa.py_buffer(data), schema)]))


class BlockCache:
    """Blocks that were read, of all objects of a floor."""

    def __init__(self, most: int = MOST // 2) -> None:
        self._most = most
        self._read: OrderedDict[tuple[str, int], KnownScopes] = OrderedDict()

    def of(self, key: str, numbers: Sequence[int], read: Callable[[int], KnownScopes]) -> list[KnownScopes]:
        """These blocks of an object; those that are not known are `read`, some at once."""
        missing = [number for number in numbers if (key, number) not in self._read]
        if len(missing) == 1:
            fresh = [read(missing[0])]
        else:
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                fresh = list(pool.map(read, missing))
        self._read |= {(key, number): block for number, block in zip(missing, fresh, strict=True)}
        found = [self._read[key, number] for number in numbers]
        while len(self._read) > self._most:
            self._read.popitem(last=False)
        return found
