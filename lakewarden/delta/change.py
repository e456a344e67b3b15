"""Computes what a batch of hot rows does to a scope's files: the files to replace, and their new rows. Writes nothing.

Three outcomes, cheapest first: by statistics, no file can hold any of the keys, so the rows are appended and nothing is
read; files could but do not, with the same result; or exactly the files that hold a key are replaced.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.clock import to_micros
from lakewarden.delta.parquet.column_ends import Ends, Value, of_rows
from lakewarden.delta.parquet.files import DataFile
from lakewarden.delta.parquet.reading import open_file
from lakewarden.delta.parquet.schema import file_schema, read_schema
from lakewarden.delta.reading.keys import Keys
from lakewarden.delta.reading.rows import newest_per_key, upserts
from lakewarden.delta.table import ScopeTable
from lakewarden.log.record import OP, UPSERT
from lakewarden.storage.open import open_store
from lakewarden.target import ScopeTarget

_WHOLE = 1 << 20
"""Files up to this many bytes are read whole; of a larger file, the key columns are read first."""

_SPARK_TIMESTAMPS = 1000
"""Microseconds. Spark cuts the bounds of timestamps to milliseconds, so its upper bounds may be this much too low."""

_FIRST_DAY = date(1970, 1, 1)


class TooLarge(Exception):
    """The files to read exceed the bound; nothing was changed. `bytes` is their size."""

    def __init__(self, size: int) -> None:
        super().__init__(f"{size} bytes to rewrite")
        self.bytes = size


@dataclass(frozen=True)
class Change:
    """The effect of a batch. `rows` are to be written (the newest schema's columns and `_seq`): the surviving rows of
    `replaced`, and the hot rows."""

    replaced: tuple[DataFile, ...]
    rows: pa.Table
    inserted: int
    updated: int
    deleted: int


def change_of(table: ScopeTable, target: ScopeTarget, hot: pa.Table, large_bytes: int | None) -> Change:
    """Computes the effect of `hot` (the newest schema's columns, `_seq`, `_op`) on the table.

    Raises:
        TooLarge: it would have to read files of more than `large_bytes`.
        Unsupported: another writer changed the columns, or left deletion vectors or partitions.
    """
    if not table.files():  # a fence of a dropped table, perhaps with its columns: nothing of it is kept
        return fresh(target, hot)
    newest = Keys.newest(hot, target.schema.primary_key)
    if table.schema_version(target.schemas) is target.schema:
        candidates = may_hold(table, newest.rows, target.schema.primary_key)
        return _replacing(table, target, newest, candidates, large_bytes, every=False)
    return _replacing(table, target, newest, table.files(), large_bytes, every=True)


def fresh(target: ScopeTarget, hot: pa.Table) -> Change:
    """Computes the effect of `hot` on a scope that has no table yet."""
    added = _columns(target, upserts(newest_per_key(hot, target.schema.primary_key)))
    return Change((), added, added.num_rows, 0, 0)


def may_hold(table: ScopeTable, keys: pa.Table, primary_key: Sequence[str]) -> tuple[DataFile, ...]:
    """Returns the files whose key ranges overlap that of `keys` in every key column; an unknown range overlaps all."""
    files = table.files()
    if not files:
        return ()
    inside = [*range(len(files))]
    for name in primary_key:
        ends, bounds = of_rows(keys.column(name)), table.bounds(name)
        if ends is not None and bounds is not None:
            low, high = bounds
            inside = [index for index in inside if _meets(ends, low[index], high[index])]
    return tuple(files[index] for index in inside)


def _meets(ends: Ends, low: Value | None, high: Value | None) -> bool:
    """Whether a file with these bounds may hold a value within the ends."""
    begins_later = low is not None and bool(_plain(low) > ends.high)
    ends_before = high is not None and bool(_plain(high, _SPARK_TIMESTAMPS) < ends.low)
    return not (begins_later or ends_before)


def _plain(value: Value, more: int = 0) -> Any:
    """In the form of `Ends`; a moment as so many microseconds later."""
    if isinstance(value, datetime):
        return to_micros(value) + more
    return (value - _FIRST_DAY).days if isinstance(value, date) else value


def _replacing(
    table: ScopeTable,
    target: ScopeTarget,
    hot: Keys,
    candidates: tuple[DataFile, ...],
    large_bytes: int | None,
    *,
    every: bool,
) -> Change:
    """Reads the candidates. `every`: replaces all of them, whether they hold a key or not."""
    size = sum(file.size for file in candidates)
    if large_bytes is not None and size > large_bytes:
        raise TooLarge(size)
    if candidates:
        table.check_plain()
    parts = [part for file in candidates if len((part := _split(table, target, file, hot)).hits) or every]
    hit = np.zeros(len(hot.rows), np.bool_)
    for part in parts:
        hit[part.hits] = True
    upserted = hot.rows.column(OP).to_numpy() == UPSERT
    added = hot.rows if upserted.all() else upserts(hot.rows)
    matched, updated = (int(np.count_nonzero(found)) for found in (hit, hit & upserted))
    return Change(
        replaced=tuple(part.file for part in parts),
        rows=pa.concat_tables([*(part.survivors for part in parts), _columns(target, added)]),
        inserted=added.num_rows - updated,
        updated=updated,
        deleted=matched - updated,
    )


@dataclass(frozen=True)
class _Split:
    """A file's rows: for each that the batch removes, the index of the hot row with its key; and the surviving rows."""

    file: DataFile
    hits: np.ndarray
    survivors: pa.Table


def _split(table: ScopeTable, target: ScopeTarget, file: DataFile, hot: Keys) -> _Split:
    every = read_schema(target.schema)
    ids = table.column_ids(target.schemas)
    opened = open_file(open_store(table.location), file.path)
    whole = file.size <= _WHOLE
    rows = opened.read_with_ids(every if whole else pa.schema([every.field(name) for name in target.schema.primary_key]), ids)
    places = hot.places(rows)
    hits = places.drop_null().to_numpy()
    if len(hits) and not whole:
        rows = opened.read_with_ids(every, ids)
    return _Split(file, hits, rows.filter(pc.is_null(places)) if len(hits) else rows)


def _columns(target: ScopeTarget, rows: pa.Table) -> pa.Table:
    return rows.select(file_schema(target.schema).names)
