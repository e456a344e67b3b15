"""Rows of a scope: read from its Delta table, and put together with newer ones by primary key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakewarden.base.arrays import flags
from lakewarden.base.connection import Location
from lakewarden.base.scope import Scope
from lakewarden.catalog.model import TableSchema
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.parquet.files import DataFile, NewFile
from lakewarden.delta.parquet.reading import OpenDataFile, open_file
from lakewarden.delta.parquet.schema import column_ids, fitted, read_schema, rows_schema
from lakewarden.delta.reading.bounds import Bound, files_to_read
from lakewarden.delta.reading.column_cache import ColumnCache
from lakewarden.delta.reading.keys import Keys
from lakewarden.delta.table import ScopeTable
from lakewarden.delta.table_contents import TableContents
from lakewarden.errors import Corrupt
from lakewarden.log.record import OP, SEQ, UPSERT, USER
from lakewarden.storage.objects import ObjectStore
from lakewarden.storage.open import open_store

# Some live files: all that is needed to read them, in another process too, where no table is opened.


@dataclass(frozen=True)
class FileGroup:
    """Files of one version of a plain table, and the columns that are wanted of them."""

    location: Location
    scope: Scope | None
    files: tuple[DataFile, ...]
    wanted: pa.Schema
    column_ids: Mapping[str, int]

    @classmethod
    def of(
        cls, table: ScopeTable, files: Iterable[DataFile], schemas: tuple[TableSchema, ...], columns: Sequence[str] | None = None
    ) -> FileGroup:
        """`columns`: names of the newest schema, and `_seq`; None for all."""
        wanted = wanted_schema(schemas[-1], None if columns is None else tuple(columns))
        return cls(table.location, table.scope, tuple(files), wanted, table.column_ids(schemas))

    @classmethod
    def of_new(cls, target: ScopeTarget, file: NewFile) -> FileGroup:
        """A file of the newest schema that no version names yet."""
        return cls(target.location, None, (file.live(),), wanted_schema(target.schema, None), column_ids(target.schema))

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.files)

    def singly(self) -> Iterator[FileGroup]:
        """Each file by itself."""
        return (replace(self, files=(file,)) for file in self.files)

    def empty(self) -> pa.Table:
        return pa.schema([(field.name, field.type) for field in self.wanted]).empty_table()

    def read(self, cache: ColumnCache | None = None) -> pa.Table:
        """The rows, under the newest schema.

        Raises:
            Corrupt: a file is missing or unreadable.
        """
        store = open_store(self.location)
        parts = []
        for file in self.files:
            opened = partial(self._opened, store, file)
            if cache is None:
                parts.append(opened().read(self.wanted, self.column_ids))
            else:
                parts.append(cache.rows(self.location.uri, file, self.wanted, self.column_ids, opened))
        return pa.concat_tables(parts) if parts else self.empty()

    def with_keys(self, keys: Keys) -> pa.Table:
        """The rows with these keys. Of a file that has none, nothing but the key's columns is read. Raises as `read`."""
        store = open_store(self.location)
        columns = pa.schema([self.wanted.field(name) for name in keys.primary_key])
        parts = []
        for file in self.files:
            opened = self._opened(store, file)
            there = pc.is_valid(keys.places(opened.read(columns, self.column_ids)))
            if pc.any(there).as_py():
                parts.append(opened.read(self.wanted, self.column_ids).filter(there))
        return pa.concat_tables(parts) if parts else self.empty()

    def _opened(self, store: ObjectStore, file: DataFile) -> OpenDataFile:
        """Raises Corrupt: the file is missing or unreadable, or says that its rows are another scope's."""
        opened = open_file(store, file.path, file.partition)
        if self.scope is not None and opened.footer.of_another(self.scope):
            raise Corrupt(f"{self.location.uri}/{file.path} holds rows of another scope than {self.scope}: it was copied there")
        return opened


@lru_cache(maxsize=1024)
def wanted_schema(schema: TableSchema, columns: tuple[str, ...] | None) -> pa.Schema:
    """Some columns, or all, as they are read."""
    every = read_schema(schema)
    return every if columns is None else pa.schema([every.field(name) for name in columns])


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
    kept = are_upserts(hot)
    return hot if kept.all() else hot.filter(flags(kept))


def are_upserts(hot: pa.Table) -> NDArray[np.bool_]:
    """Of each row, whether it is no tombstone."""
    # By numpy, which keeps the interpreter's lock: each call of Arrow hands it to another thread that flushes.
    found: NDArray[np.bool_] = hot.column(OP).to_numpy() == UPSERT
    return found


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
