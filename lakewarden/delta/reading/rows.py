"""Rows of a scope: read from its Delta table, and put together with newer ones by primary key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakewarden.catalog.model import TableSchema
from lakewarden.delta.parquet.files import DataFile
from lakewarden.delta.parquet.schema import fitted, rows_schema
from lakewarden.delta.reading.bounds import Bound, files_to_read
from lakewarden.delta.reading.column_cache import ColumnCache
from lakewarden.delta.reading.file_group import FileGroup, wanted_schema
from lakewarden.delta.reading.keys import Keys
from lakewarden.delta.table import ScopeTable
from lakewarden.delta.table_contents import TableContents
from lakewarden.log.record import OP, SEQ, UPSERT, USER


@lru_cache(maxsize=1024)
def empty_rows(schema: TableSchema) -> pa.Table:
    """No rows: the table's columns and `_seq`."""
    return rows_schema(schema).empty_table()


def read_rows(
    table: ScopeTable,
    schemas: tuple[TableSchema, ...],
    columns: Sequence[str] | None = None,
    bounds: Sequence[Bound] = (),
    cache: ColumnCache | None = None,
    buckets: int = 1,
) -> pa.Table:
    """The rows of that version under the newest schema: its columns and `_seq`; absent ones have their initial value.

    Args:
        columns: names of the newest schema, `_seq` among them where it is wanted; None for all.
        bounds: rows outside of them may be left out.
        cache: of columns that were read before.
        buckets: as for `files_to_read`.

    Raises:
        Unsupported: another writer changed the columns.
        Corrupt: a file is missing or unreadable.
    """
    if not table.plain:
        return scanned_rows(table, schemas, columns)
    if files := files_to_read(table, bounds, schemas, buckets):
        return FileGroup.of(table, files, schemas, columns).read(cache)
    return empty_rows(schemas[-1]) if columns is None else empty_rows(schemas[-1]).select(columns)


def scanned_rows(table: ScopeTable, schemas: tuple[TableSchema, ...], columns: Sequence[str] | None) -> pa.Table:
    """As `read_rows`, but always by `ScopeTable.scan`, and of whole files."""
    ids = table.column_ids(schemas)
    wanted = wanted_schema(schemas[-1], None if columns is None else tuple(columns))
    return fitted(table.scan(), wanted, {id_: name for name, id_ in ids.items()}, table.uri)


def read_keyed(
    table: ScopeTable, schemas: tuple[TableSchema, ...], keys: Keys, bounds: Sequence[Bound], buckets: int = 1
) -> pa.Table:
    """As `read_rows`, but only the rows with these keys, which are all within the bounds."""
    if not (table.plain and table.files()):
        rows = read_rows(table, schemas, None, bounds, None, buckets)
        return rows.filter(pc.is_valid(keys.places(rows)))
    return FileGroup.of(table, files_to_read(table, bounds, schemas, buckets), schemas).with_keys(keys)


def read_parts(
    table: ScopeTable, schemas: tuple[TableSchema, ...], columns: Sequence[str] | None, bounds: Sequence[Bound] = ()
) -> Iterator[pa.Table]:
    """As `read_rows`, but file by file."""
    if not table.plain:
        yield read_rows(table, schemas, columns, bounds)
        return
    files = files_to_read(table, bounds, schemas)
    yield from (each.read() for each in FileGroup.of(table, files, schemas, columns).singly())


def merged(cold: pa.Table, hot: pa.Table, primary_key: Sequence[str]) -> pa.Table:
    """What a reader sees: the newest hot row of each key before any cold one; tombstones hide."""
    return pa.concat_tables(merged_parts([cold], hot, primary_key))


def merged_parts(cold: Iterable[pa.Table], hot: pa.Table, primary_key: Sequence[str]) -> Iterator[pa.Table]:
    """As `merged`, of cold rows that come in one part at least."""
    newest, like = Keys.newest(hot, primary_key), None
    for part in cold:
        yield part.filter(pc.is_null(newest.places(part)))
        like = part.schema
    assert like is not None, "cold rows come in one part at least"
    yield upserts(newest.rows).select(like.names).cast(like)


def upserts(hot: pa.Table) -> pa.Table:
    """Without the tombstones."""
    kept = pc.equal(hot.column(OP), pa.scalar(UPSERT, pa.int8()))
    return hot if pc.all(kept).as_py() else hot.filter(kept)


def matches(rows: pa.Table, keys: pa.Table, primary_key: Sequence[str]) -> Any:
    """For each row, whether its key is among `keys`. A key with a NULL (others' rows) is not."""
    return pc.is_valid(Keys(keys, primary_key).places(rows))


def number_of_rows(table: TableContents, files: Iterable[DataFile]) -> int | None:
    """How many rows files hold, by the commits alone. None where these do not say it exactly: another writer left a count out, or
    deletes rows by vectors."""
    counts = [file.rows for file in files]
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) and table.plain else None


def nothing_but(number: int, columns: Sequence[str]) -> pa.Table:
    """So many rows without values: they take no memory."""
    return pa.table({name: pa.nulls(number) for name in columns})


# Finds the row before each row of the log: an earlier one of the log, or one that was live.


@dataclass(frozen=True)
class Before:
    """`rows` are the live ones, then those of the log, with the table's columns."""

    rows: pa.Table
    prior: NDArray[np.int64]
    """For each row of the log, the place in `rows` of the row before it; any where there was none."""
    was: NDArray[np.bool_]
    """For each row of the log, whether there was one."""

    @property
    def aligned(self) -> pa.Table:
        """For each row of the log the row before it, all NULL where there was none."""
        return self.rows.take(pa.array(np.where(self.was, self.prior, 0), pa.int64(), mask=~self.was))


def rows_before(live: pa.Table, rows: pa.Table, primary_key: Sequence[str]) -> Before:
    """
    Args:
        live: before all of them, at most one row for each key; more than those of these keys do no harm.
        rows: of the log, in its order.
    """
    columns = [name for name in rows.column_names if name not in (OP, SEQ, USER)]
    both = pa.concat_tables([live.select(columns).cast(rows.select(columns).schema), rows.select(columns)])
    ops = np.concatenate([np.full(live.num_rows, UPSERT, np.int8), rows.column(OP).to_numpy()])
    prior = _prior(both, primary_key)[live.num_rows :]
    return Before(both, prior, (prior >= 0) & (ops[prior] == UPSERT))


def _prior(rows: pa.Table, primary_key: Sequence[str]) -> NDArray[np.int64]:
    """For each row, the index of the row with its key that stands before it; -1 where there is none."""
    prior = np.full(rows.num_rows, -1, np.int64)
    if not rows.num_rows:
        return prior
    keys: Any = Keys(rows, primary_key).places(rows).fill_null(-1).to_numpy()
    order = np.argsort(keys, kind="stable")
    alike = (keys[order[1:]] == keys[order[:-1]]) & (keys[order[1:]] >= 0)
    prior[order[1:][alike]] = order[:-1][alike]
    return prior
