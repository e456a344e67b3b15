"""Computes what a batch of hot rows does to a scope's files: the files to replace, and their new rows. Writes nothing.

Three outcomes, cheapest first: by statistics, no file can hold any of the keys, so the rows are appended and nothing is
read; files could but do not, with the same result; or exactly the files that hold a key are replaced.

A partitioned table changes partition by partition, so that the rows of a few are in memory at a time. A row whose partition
column changes leaves a file of one partition and comes into another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.parquet.files import DELETED, INSERT, POSTIMAGE, PREIMAGE, DataFile, by_partition, with_type
from lakewarden.delta.parquet.reading import open_file
from lakewarden.delta.parquet.schema import read_schema, rows_schema
from lakewarden.delta.partitions import Partition, divided
from lakewarden.delta.reading.bounds import may_hold
from lakewarden.delta.reading.keys import BatchKeys, Keys, Numbers, SomeKeys
from lakewarden.delta.reading.rows import are_upserts, upserts
from lakewarden.delta.table import ScopeTable
from lakewarden.storage.open import open_store

_WHOLE = 1 << 20
"""Files up to this many bytes are read whole; of a larger file, the key columns are read first."""

AT_ONCE = 2
"""Partitions that are changed at once: one is read and written by the libraries while another is computed."""

_TIMES = 16
"""How many times the bytes that may be held may be read, partition by partition; above, Spark is quicker on several machines."""

Flags = np.ndarray[tuple[int], np.dtype[np.bool_]]

_NO_NUMBERS: Numbers = np.zeros(0, np.int64)


class TooLarge(Exception):
    """The files to read exceed the bound; nothing was changed. `bytes` is their size."""

    def __init__(self, size: int) -> None:
        super().__init__(f"{size} bytes to rewrite")
        self.bytes = size


@dataclass(frozen=True)
class PartitionChange:
    """The effect of a batch on one partition, or on an unpartitioned table."""

    replaced: tuple[DataFile, ...]
    rows: pa.Table
    """To be written (the newest schema's columns and `_seq`): the surviving rows of `replaced`, and the batch's."""
    added: int
    """How many of them are the batch's."""
    hits: Numbers
    """The rows of the batch whose keys were in `replaced`, by their numbers in `BatchChanges.upserts`."""
    before: pa.Table
    """The old rows of `hits`, in their order, where images were asked for; otherwise none."""


@dataclass(frozen=True)
class BatchChanges:
    """The effect of a batch, partition by partition."""

    partitions: tuple[Partition, ...]
    of: Callable[[Partition], PartitionChange]
    """Computes the effect on one of them. Several may be computed at once."""
    upserts: Flags
    """Of each key of the batch, whether its newest row is one; the others are deletes."""
    coming: pa.Table
    """The newest rows of the keys that are upserts, in their order."""

    def images(self, parts: Sequence[PartitionChange]) -> pa.Table:
        """How rows change, from the effects on all partitions: with `_change_type`, as Delta's feed has it."""
        hits = np.concatenate([part.hits for part in parts])
        old = with_type(pa.concat_tables([part.before for part in parts]), _words(self.upserts[hits], PREIMAGE, DELETED))
        new = with_type(self.coming, _words(self._hit(parts)[self.upserts], POSTIMAGE, INSERT))
        return pa.concat_tables([old, new.select(old.column_names).cast(old.schema)])

    def counted(self, parts: Sequence[PartitionChange]) -> tuple[int, int, int]:
        """The numbers of rows that are inserted, updated and deleted, from the effects on all partitions.

        A row that moves to another partition is a hit in one and added in the other, so it is updated.
        """
        hit, added = self._hit(parts), sum(part.added for part in parts)
        updated = int(np.count_nonzero(hit & self.upserts))
        return added - updated, updated, int(np.count_nonzero(hit)) - updated

    def _hit(self, parts: Sequence[PartitionChange]) -> Flags:
        """Of each key of the batch, whether there was a row with it."""
        found = np.zeros(len(self.upserts), np.bool_)
        for part in parts:
            found[part.hits] = True
        return found


def changes_of(
    table: ScopeTable | None, target: ScopeTarget, hot: pa.Table, large_bytes: int | None, *, images: bool = False
) -> BatchChanges:
    """Computes the effect of `hot` (the newest schema's columns, `_seq`, `_op`) on the table, or on a scope that has none yet.

    Args:
        images: whether the old rows are wanted, too (`PartitionChange.before`).

    Raises:
        TooLarge: it would have to hold files of more than `large_bytes`, or to read so many times as much.
        Unsupported: another writer changed the columns, or left deletion vectors or partitions.
    """
    newest = Keys.newest(hot, target.schema.primary_key)
    if table is None or not table.files():  # a fence of a dropped table, perhaps with its columns: nothing of it is kept
        return _replacing(target, newest, {}, every=False)
    table.check_partitions(target.schema)
    every = not table.keeps_files(target.schemas)
    candidates = table.files() if every else may_hold(table, newest.rows, target.schema.primary_key)
    there = by_partition(candidates)
    if large_bytes is not None:
        sizes = sorted(sum(file.size for file in files) for files in there.values())
        if sum(sizes[-AT_ONCE:]) > large_bytes or sum(sizes) > large_bytes * _TIMES:
            raise TooLarge(sum(sizes))
    if candidates:
        table.check_plain()
    split = partial(_split, table, target, goes=every, images=images)
    reading = {partition: [partial(split, file) for file in files] for partition, files in there.items()}
    return _replacing(target, newest, reading, every=every)


def _replacing(
    target: ScopeTarget, hot: Keys, there: Mapping[Partition, Sequence[Callable[[SomeKeys], _Split]]], *, every: bool
) -> BatchChanges:
    """Reads the candidates, each by a call. `every`: replaces all of them, whether they hold a key or not."""
    batch = BatchKeys.of(hot, [] if every or not there else target.schema.partition_by, sum(map(len, there.values())))
    upserted = are_upserts(hot.rows)
    added = upserts(hot.rows).select(rows_schema(target.schema).names)
    coming = dict(divided(added, target.schema.partition_by))

    def of(partition: Partition) -> PartitionChange:
        keys = batch.within(partition)
        splits = (split(keys) for split in there.get(partition, ()))
        parts = [part for part in splits if len(part.hits) or every]
        rows = coming.get(partition, added.slice(0, 0))
        return PartitionChange(
            replaced=tuple(part.file for part in parts),
            rows=pa.concat_tables([*(part.survivors for part in parts), rows]),
            added=len(rows),
            hits=np.concatenate([_NO_NUMBERS, *(part.hits for part in parts)]),
            before=pa.concat_tables([added.slice(0, 0), *(part.gone for part in parts)]),
        )

    return BatchChanges(tuple({**there, **coming}), of, upserted, added)


@dataclass(frozen=True)
class _Split:
    """A file's rows: for each that the batch removes, the index of the hot row with its key; and the rows that stay, and go."""

    file: DataFile
    hits: Numbers
    survivors: pa.Table
    gone: pa.Table


def _split(table: ScopeTable, target: ScopeTarget, file: DataFile, some: SomeKeys, *, goes: bool, images: bool) -> _Split:
    """`goes`: the file is replaced even if no key is in it. `images`: the rows that go are wanted."""
    every = read_schema(target.schema)
    ids = table.column_ids(target.schemas)
    opened = open_file(open_store(table.location), file.path, file.partition)
    whole = file.size <= _WHOLE
    rows = opened.read_with_ids(every if whole else pa.schema([every.field(name) for name in target.schema.primary_key]), ids)
    places = some.keys.places(rows)
    hits = some.numbers[places.drop_null().to_numpy()]
    if (len(hits) or goes) and not whole:
        rows = opened.read_with_ids(every, ids)
    gone = rows.filter(pc.is_valid(places)) if images else rows.slice(0, 0)
    return _Split(file, hits, rows.filter(pc.is_null(places)) if len(hits) else rows, gone)


def _words(flags: Flags, word: str, other: str) -> list[str]:
    found: list[str] = np.where(flags, word, other).tolist()
    return found
