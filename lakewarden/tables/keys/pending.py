"""The keys of scopes' pending rows, kept between look-ups, so that each chunk of the log is read once.

A chunk never changes. Those of a scope come in the order of the log, and leave it when they are settled or erased: then the keys
of what is left are read again.

The keys of small chunks are in a dictionary, where one is found at once: a single row is a chunk of its own. Those of large ones
stay in columns: ten thousand of them take a fiftieth of the memory, and are compared with as many others in a tenth of the time.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.base.arrays import numbers
from lakewarden.base.recent import Recent
from lakewarden.catalog.model import TableSchema
from lakewarden.delta.reading.bounds import Bound, are_apart, key_bounds
from lakewarden.delta.reading.keys import Key, Keys, key_values
from lakewarden.log.chunk import RowRange
from lakewarden.log.log_reader import LogReader
from lakewarden.log.record import DELETE, OP, SEQ, UPSERT, decode, hot_schema
from lakewarden.log.view import PendingRows

Newest = Mapping[Key, tuple[int, bool]]
"""By key, the `_seq` of the newest pending row, and whether it is an upsert."""

_FEW = 100
"""Rows of a small chunk: those of most single calls."""

_MOST_SMALL = 10_000
"""Keys of small chunks from which they become a block, too. A look-up by one key goes through a block of so many in 50 µs."""

_SHARE = 4
"""A scope with more than this part of all the keys is not kept, nor a block with more than this part of all the bytes."""

_BLOCK_WEIGHT = 5
"""What is kept of a block beside its columns takes as much memory as so many keys in the dictionary."""


@dataclass(frozen=True, eq=False)
class _Block:
    """Neighbouring chunks whose keys are in columns, which may have to be read again. Known by its identity."""

    ranges: tuple[RowRange, ...]
    bounds: tuple[Bound, ...]
    """Where its keys are. Other keys are compared with none of them."""


@dataclass
class _Scope:
    schema: TableSchema
    ranges: tuple[RowRange, ...] = ()
    small: tuple[RowRange, ...] = ()
    newest: dict[Key, tuple[int, bool]] = field(default_factory=dict)
    """Of the small chunks that are in no block."""
    blocks: list[_Block] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def weight(self) -> int:
        return len(self.newest) + _BLOCK_WEIGHT * len(self.blocks)

    def add(self, small: Sequence[RowRange], rows: pa.Table) -> None:
        """Adds the rows of further small chunks."""
        signs = zip(rows.column(SEQ).to_numpy().tolist(), (rows.column(OP).to_numpy() == UPSERT).tolist(), strict=True)
        self.newest.update(zip(key_values(rows, self.schema.primary_key), signs, strict=True))
        self.small += tuple(small)

    def forget(self) -> None:
        self.ranges, self.small, self.newest, self.blocks = (), (), {}, []


class PendingKeys:
    """Bounded; safe for threads.

    Args:
        most: keys in dictionaries: some 200 bytes each, 20 MB at the default.
        most_bytes: of keys in columns: those of four million rows with a BIGINT key at the default.
    """

    def __init__(self, most: int = 100_000, most_bytes: int = 64 << 20) -> None:
        self._scopes: Recent[tuple[str, str], _Scope] = Recent(most, _SHARE)
        self._columns: Recent[_Block, pa.Table] = Recent(most_bytes, _SHARE)

    def of(self, log: LogReader, pending: PendingRows, schemas: tuple[TableSchema, ...], wanted: pa.Table) -> Newest:
        """Returns which of some keys the scope has, as of a view's pending rows, or of a later view's.

        Args:
            wanted: rows with the columns of the primary key.

        Raises:
            Missing: some of the pending rows were settled and cleaned up meanwhile; read the log again.
            Conflict: they have a schema version that is not among `schemas`.
        """
        key = schemas[-1].primary_key
        scope = self._scope(log.log_id, pending, schemas[-1])
        with scope.lock:
            known = min(len(scope.ranges), len(pending.ranges))
            if scope.ranges[:known] != pending.ranges[:known]:
                scope.forget()
            self._read(scope, log, pending.ranges[len(scope.ranges) :], schemas)
            self._scopes.put((log.log_id, pending.user), scope, scope.weight)
            newest, blocks = scope.newest, scope.blocks
        found = {each: newest[each] for each in key_values(wanted, key) if each in newest} if newest else {}
        if not blocks:
            return found
        keys, bounds = Keys(wanted, key), key_bounds(key, wanted)
        for block in (block for block in blocks if not are_apart(block.bounds, bounds)):
            for each, sign in _signs(self._rows(block, log, schemas), keys):
                # a block may stand before or behind a small chunk: the `_seq` says which row is newer
                found[each] = max(sign, found.get(each, sign))
        return found

    def _scope(self, log_id: str, pending: PendingRows, schema: TableSchema) -> _Scope:
        name = (log_id, pending.user)
        scope = self._scopes.get(name)
        if scope is None or scope.schema != schema:
            scope = _Scope(schema)
            self._scopes.put(name, scope)
        return scope

    def _read(self, scope: _Scope, log: LogReader, ranges: Sequence[RowRange], schemas: tuple[TableSchema, ...]) -> None:
        """Adds further chunks. Raises as `of`; then the scope stays as it was."""
        if not ranges:
            return
        large = [(each,) for each in ranges if each.rows > _FEW]
        blocks = [self._block(each, _key_columns(each, log, schemas), scope.schema) for each in large]
        if small := [each for each in ranges if each.rows <= _FEW]:
            scope.add(small, decode([*map(log.chunk, small)], small, schemas))
        if len(scope.newest) > _MOST_SMALL:
            blocks.append(self._block(scope.small, _in_columns(scope.newest, scope.schema), scope.schema))
            scope.small, scope.newest = (), {}
        scope.blocks = [*scope.blocks, *blocks]
        scope.ranges += tuple(ranges)

    def _block(self, ranges: tuple[RowRange, ...], rows: pa.Table, schema: TableSchema) -> _Block:
        block = _Block(ranges, key_bounds(schema.primary_key, rows))
        self._columns.put(block, rows, rows.nbytes)
        return block

    def _rows(self, block: _Block, log: LogReader, schemas: tuple[TableSchema, ...]) -> pa.Table:
        rows = self._columns.get(block)
        if rows is None:
            rows = _key_columns(block.ranges, log, schemas)
            self._columns.put(block, rows, rows.nbytes)
        return rows


def _key_columns(ranges: Sequence[RowRange], log: LogReader, schemas: tuple[TableSchema, ...]) -> pa.Table:
    """Copied: a column of a chunk keeps all of the chunk in memory."""
    rows = decode([log.chunk(each) for each in ranges], ranges, schemas).select([*schemas[-1].primary_key, SEQ, OP])
    return rows.take(numbers(np.arange(rows.num_rows)))


def _in_columns(newest: Newest, schema: TableSchema) -> pa.Table:
    names, kinds = (*schema.primary_key, SEQ, OP), hot_schema(schema)
    columns = zip(*((*key, seq, UPSERT if live else DELETE) for key, (seq, live) in newest.items()), strict=True)
    return pa.table({name: pa.array(list(each), kinds.field(name).type) for name, each in zip(names, columns, strict=True)})


def _signs(rows: pa.Table, keys: Keys) -> Iterator[tuple[Key, tuple[int, bool]]]:
    """Of a block's rows those with one of the keys, as in `Newest`; a key may come several times."""
    hits = rows.filter(pc.is_valid(keys.places(rows)))
    signs = zip(hits.column(SEQ).to_numpy().tolist(), (hits.column(OP).to_numpy() == UPSERT).tolist(), strict=True)
    return zip(key_values(hits, keys.primary_key), signs, strict=True)
