"""Rows of a scope: read from its Delta table, and put together with newer ones by primary key."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.catalog.model import TableSchema
from lakewarden.delta.parquet.files import DataFile
from lakewarden.delta.parquet.fitting import fitted
from lakewarden.delta.parquet.reading import OpenFile, open_file
from lakewarden.delta.parquet.schema import SEQ, read_schema, rows_schema
from lakewarden.delta.reading.bounds import Bound, files_within
from lakewarden.delta.reading.column_cache import ColumnCache
from lakewarden.delta.table import ScopeTable
from lakewarden.errors import Corrupt
from lakewarden.log.record import OP, UPSERT
from lakewarden.storage.objects import ObjectStore
from lakewarden.storage.open import open_store


def empty_rows(schema: TableSchema) -> pa.Table:
    """No rows: the table's columns and `_seq`."""
    return rows_schema(schema).empty_table()


def read_rows(
    table: ScopeTable,
    schemas: tuple[TableSchema, ...],
    columns: Sequence[str] | None = None,
    bounds: Sequence[Bound] = (),
    cache: ColumnCache | None = None,
) -> pa.Table:
    """The rows of that version under the newest schema: its columns and `_seq`; absent ones have their initial value.

    Args:
        columns: names of the newest schema, `_seq` among them where it is wanted; None for all.
        bounds: rows outside of them may be left out.
        cache: of columns that were read before.

    Raises:
        Unsupported: another writer changed the columns.
        Corrupt: a file is missing or unreadable.
    """
    if not table.files():
        return empty_rows(schemas[-1]) if columns is None else empty_rows(schemas[-1]).select(columns)
    if table.plain:
        named_alike = table.schema_version(schemas).version == schemas[-1].version  # statistics go by name
        return read_files(table, files_within(table, bounds if named_alike else ()), schemas, columns, cache)
    ids = table.column_ids(schemas)
    return fitted(table.scan(), _wanted(schemas[-1], columns), {id_: name for name, id_ in ids.items()}, table.uri)


def read_files(
    table: ScopeTable,
    files: Iterable[DataFile],
    schemas: tuple[TableSchema, ...],
    columns: Sequence[str] | None = None,
    cache: ColumnCache | None = None,
) -> pa.Table:
    """The rows of some live files of a plain table, under the newest schema."""
    store = open_store(table.location)
    wanted = _wanted(schemas[-1], columns)
    ids = table.column_ids(schemas)
    parts = []
    for file in files:
        opened = partial(_opened, table, store, file.path)
        parts.append(cache.rows(table.uri, file, wanted, ids, opened) if cache else opened().read(wanted, ids))
    return pa.concat_tables(parts) if parts else pa.schema([(field.name, field.type) for field in wanted]).empty_table()


def _opened(table: ScopeTable, store: ObjectStore, path: str) -> OpenFile:
    """Raises:
    Corrupt: the file is missing or unreadable, or says that its rows are another scope's.
    """
    opened = open_file(store, path)
    if table.scope is not None and opened.footer.of_another(table.scope):
        raise Corrupt(f"{table.uri}/{path} holds rows of another scope than {table.scope}: it was copied there")
    return opened


def _wanted(schema: TableSchema, columns: Sequence[str] | None) -> pa.Schema:
    every = read_schema(schema)
    return every if columns is None else pa.schema([every.field(name) for name in columns])


def newest_per_key(hot: pa.Table, primary_key: Sequence[str]) -> pa.Table:
    """Of rows with `_seq`, the newest of each key. `_seq` is one row's own within a scope."""
    keys, _ = comparable(hot, hot, primary_key)
    if pc.count_distinct(keys).as_py() == hot.num_rows:
        return hot
    newest = pa.table({"key": keys, "seq": hot.column(SEQ)}).group_by("key", use_threads=False).aggregate([("seq", "max")])
    return hot.filter(pc.is_in(hot.column(SEQ), value_set=newest.column("seq_max")))


def without_keys(cold: pa.Table, keys: pa.Table, primary_key: Sequence[str]) -> pa.Table:
    """The rows of `cold` whose key is not among `keys`."""
    return cold.filter(pc.invert(matches(cold, keys, primary_key)))


def merged(cold: pa.Table, hot: pa.Table, primary_key: Sequence[str]) -> pa.Table:
    """What a reader sees: the newest hot row of each key before any cold one; tombstones hide."""
    newest = newest_per_key(hot, primary_key)
    survivors = without_keys(cold, newest, primary_key)
    return pa.concat_tables([survivors, upserts(newest).select(cold.column_names).cast(cold.schema)])


def upserts(hot: pa.Table) -> pa.Table:
    """Without the tombstones."""
    return hot.filter(pc.equal(hot.column(OP), pa.scalar(UPSERT, pa.int8())))


def matches(rows: pa.Table, keys: pa.Table, primary_key: Sequence[str]) -> Any:
    """For each row, whether its key is among `keys`. A key with a NULL (others' rows) is not."""
    left, right = comparable(rows, keys, primary_key)
    return pc.is_in(left, value_set=right)


def comparable(rows: pa.Table, keys: pa.Table, primary_key: Sequence[str]) -> tuple[Any, Any]:
    """One column a side whose values are equal where the whole keys are.

    A key of several columns is numbered column by column, by the distinct values of `keys`; rows whose value is none of
    them get NULL. Numbers stay below the number of `keys` rows, so that their products fit 64 bits.
    """
    first, *others = primary_key
    left, right = rows.column(first), keys.column(first)
    for name in others:
        left, right, _ = _numbered(left, right)
        more_left, more_right, count = _numbered(rows.column(name), keys.column(name))
        left = pc.add(pc.multiply(left, count), more_left)
        right = pc.add(pc.multiply(right, count), more_right)
    return left, right


def _numbered(left: Any, right: Any) -> tuple[Any, Any, int]:
    distinct = pc.unique(right)
    return (
        pc.index_in(left, value_set=distinct).cast(pa.int64()),
        pc.index_in(right, value_set=distinct).cast(pa.int64()),
        len(distinct),
    )
