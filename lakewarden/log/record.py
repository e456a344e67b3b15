"""Rows of the log in Arrow: a chunk is one record batch message without its schema, which follows from the table's.

A chunk names its table's schema version, so that ten thousand small chunks do not repeat the schema ten thousand times.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.base.arrays import numbers
from lakewarden.base.setting_sections import LogSettings
from lakewarden.catalog.column_values import initial_values
from lakewarden.catalog.model import TableSchema
from lakewarden.errors import Conflict, Corrupt, InvalidArgument
from lakewarden.log.chunk import Chunk, Payload, RowRange, with_metadata
from lakewarden.log.crowd import crowd_of

# The column `_before` of the log: the row before each row, where the table keeps it.
BEFORE = "_before"
"""NULL where there was no row."""


@lru_cache(maxsize=1024)
def before_field(schema: TableSchema) -> pa.Field[Any]:
    """The column: all columns of the table in one."""
    return pa.field(BEFORE, pa.struct([pa.field(column.name, column.type.arrow) for column in schema.columns]))


def before_of(rows: pa.Table) -> tuple[pa.Table, pa.Array[Any]]:
    """The rows in the column, all NULL where there was none; and which there are."""
    found = cast("pa.StructArray", rows.column(BEFORE).combine_chunks())
    return pa.Table.from_arrays(found.flatten(), names=[field.name for field in found.type]), found.is_valid()


def before_column(schema: TableSchema, rows: pa.Table, there: pa.Array[Any]) -> pa.Array[Any]:
    """The column for what `before_of` returns."""
    each = list(before_field(schema).type)
    columns = [rows.column(field.name).combine_chunks() for field in each]
    return pa.StructArray.from_arrays(columns, fields=each, mask=pc.invert(there))


USER = "_user"
OP = "_op"
SEQ = "_seq"

TARGET = "_target"
"""In the log of a STREAM table: the `_seq` of the row that a delete removes."""

UPSERT = 0
DELETE = 1

COLUMN_ID = b"lakewarden.column_id"
"""Key of a field's metadata: the id of the catalog's column."""

_FEW = 8
"""Up to this many rows in a call, it pays to cache what is the same each time."""

_COPIED_AT_ONCE = 1 << 30
"""Arrow's offsets of text are 32 bits: rows are gathered in parts whose text stays well below 2 GiB."""


@dataclass(frozen=True)
class LogBatch:
    """Rows for the log in the order of their arrival: the columns of `log_schema` and `_user` (`""` for a SHARED table); then
    `_before`, where the table keeps it and it is known."""

    schema_version: int
    rows: pa.Table


@lru_cache(maxsize=1024)
def log_schema(schema: TableSchema) -> pa.Schema:
    """The table's columns, all nullable (a tombstone has its key alone), then `_op`; of a STREAM table `_target` before it."""
    fields = [pa.field(column.name, column.type.arrow, metadata={COLUMN_ID: str(column.id)}) for column in schema.columns]
    target = [pa.field(TARGET, pa.int64())] if schema.append_only else []
    return pa.schema([*fields, *target, pa.field(OP, pa.int8())])


@lru_cache(maxsize=1024)
def stored_schema(schema: TableSchema) -> pa.Schema:
    """The columns of a chunk: those of `log_schema`, and `_before` where the table keeps it."""
    return log_schema(schema).append(before_field(schema)) if schema.keeps_before else log_schema(schema)


def log_batch(schema: TableSchema, rows: pa.Table, users: str | pa.Array[Any] | pa.ChunkedArray[Any], op: int) -> LogBatch:
    """Returns the rows in the form of the log. Absent columns are null, so the rows of a delete may have only the key.

    Raises:
        InvalidArgument: the table does not have a column, or has it with another type.
    """
    wanted, types = _owned_schema(schema)
    given = dict(zip(rows.column_names, rows.columns, strict=True))
    if not types.keys() >= given.keys():
        strange = ", ".join(sorted(given.keys() - types.keys()))
        raise InvalidArgument(f"no such column in the table: {strange}; it has {', '.join(schema.names)}")
    given[OP] = _ops(op, len(rows)) if len(rows) <= _FEW else pa.chunked_array([np.full(len(rows), op, np.int8)])
    given[USER] = _owners(users, len(rows))
    try:
        columns = [_as_type(given.get(name), kind, len(rows)) for name, kind in types.items()]
    except pa.ArrowException as error:
        raise InvalidArgument(f"the rows are not of the types of schema version {schema.version}: {error}") from error
    return LogBatch(schema.version, pa.Table.from_arrays(columns, schema=wanted))


@lru_cache(maxsize=1024)
def _owned_schema(schema: TableSchema) -> tuple[pa.Schema, dict[str, pa.DataType]]:
    """Returns the same with `_user`, and the types by name."""
    owned = log_schema(schema).append(pa.field(USER, pa.string()))
    return owned, {field.name: field.type for field in owned}


@lru_cache
def _ops(op: int, rows: int) -> pa.ChunkedArray[Any]:
    return pa.chunked_array([np.full(rows, op, np.int8)])


def _owners(users: str | pa.Array[Any] | pa.ChunkedArray[Any], rows: int) -> pa.ChunkedArray[Any]:
    if isinstance(users, pa.ChunkedArray):
        return users
    return pa.chunked_array([pa.repeat(users, rows) if isinstance(users, str) else users])


def _as_type(column: pa.ChunkedArray[Any] | None, kind: pa.DataType, rows: int) -> pa.ChunkedArray[Any]:
    if column is None:
        return pa.chunked_array([pa.nulls(rows, cast("Any", kind))])
    return column if column.type == kind else column.cast(kind)


def encode(batch: LogBatch, settings: LogSettings, metadata: str = "") -> Sequence[Chunk]:
    """Returns the rows as chunks, scope by scope; within a scope they keep their order.

    Args:
        metadata: of the write, behind the rows of each chunk (`log.chunk`).
    """
    return with_metadata(_chunks(batch, settings), metadata)


def _chunks(batch: LogBatch, settings: LogSettings) -> Sequence[Chunk]:
    rows = batch.rows
    data = rows.drop_columns([USER])
    owners = rows.column(USER)
    # Most calls bring one row: nothing to sort, to split or to count.
    if len(rows) == 1:
        return list(_cut_out(data.combine_chunks().to_batches(), owners[0].as_py(), 0, 1))
    limit = _chunk_rows(data, settings)
    dictionary = cast("pa.DictionaryArray[Any, Any]", owners.dictionary_encode().unify_dictionaries().combine_chunks())
    crowd = crowd_of(data, dictionary.dictionary, dictionary.indices.to_numpy(), limit)
    return _by_owner(data, dictionary, limit) if crowd is None else crowd


def _by_owner(data: pa.Table, owners: pa.DictionaryArray[Any, Any], limit: int) -> list[Chunk]:
    users = cast("list[str]", owners.dictionary.to_pylist())
    which = owners.indices.to_numpy()
    counts = np.bincount(which, minlength=len(users))
    # Rows that come user by user need no new order.
    if len(which) > 1 and bool(np.any(which[1:] < which[:-1])):
        # Few users fit 16 bits, where numpy's stable sort is a radix sort.
        order = np.argsort(which.astype(np.uint16) if len(users) < 1 << 16 else which, kind="stable")
        parts = _parts(data, order, users, counts)
        return [chunk for part, names, sizes in parts for chunk in _slices(part, names, sizes, limit)]
    return list(_slices(data, users, counts.tolist(), limit))


def _parts(
    data: pa.Table, order: np.ndarray, users: list[str], counts: np.ndarray
) -> Iterator[tuple[pa.Table, list[str], list[int]]]:
    """Returns the rows in a new order, in parts of whole users that are small enough to be gathered at once."""
    ends = np.cumsum(counts)
    rows_at_once = max(1, int(_COPIED_AT_ONCE // max(1, data.nbytes // len(data))))
    whole = data.combine_chunks() if data.nbytes < _COPIED_AT_ONCE else data
    first = 0
    while first < len(users):
        start = int(ends[first] - counts[first])
        last = max(first + 1, int(np.searchsorted(ends, start + rows_at_once, side="right")))
        yield whole.take(order[start : ends[last - 1]]), users[first:last], counts[first:last].tolist()
        first = last


def _chunk_rows(data: pa.Table, settings: LogSettings) -> int:
    """Splits the rows of one user into chunks: a chunk has to fit a segment."""
    bytes_per_row = data.nbytes // max(1, len(data)) + 1
    return max(1, min(settings.segment_max_rows, settings.segment_max_bytes // bytes_per_row))


def _slices(data: pa.Table, users: Sequence[str], counts: Sequence[int], limit: int) -> Iterator[Chunk]:
    batches = data.combine_chunks().to_batches()
    at = 0
    for user, count in zip(users, counts, strict=True):
        for start in range(at, at + count, limit):
            size = min(limit, at + count - start)
            yield from _cut_out(batches, user, start, size)
        at += count


def _cut_out(batches: list[pa.RecordBatch], user: str, start: int, size: int) -> Iterator[Chunk]:
    if len(batches) == 1:
        yield Chunk(user, size, _alone(batches[0], start, size))
        return
    for batch in batches:
        first, last = max(0, start), min(batch.num_rows, start + size)
        if first < last:
            yield Chunk(user, last - first, _alone(batch, first, last - first))
        start -= batch.num_rows


def _alone(batch: pa.RecordBatch, start: int, size: int) -> memoryview:
    """Encodes the rows without a byte of their neighbours: Arrow pads a slice's buffers with what follows it."""
    own = batch if size == batch.num_rows else batch.take(np.arange(start, start + size))
    return memoryview(own.serialize())


def decode(
    data: Sequence[Payload], where: Sequence[RowRange], schemas: tuple[TableSchema, ...], *, with_before: bool = False
) -> pa.Table:
    """Decodes chunks to one table: the columns of the newest schema, `_seq`, `_op`.

    Columns are matched by their id. Those that the newest schema does not have are dropped; those that a chunk's
    schema did not have get their initial value.

    Args:
        with_before: adds `_before`, of a table that keeps it.
    """
    if not where:
        return _no_rows(schemas[-1], with_before)
    parts = [_columns(chunk, each, schemas, with_before) for chunk, each in zip(data, where, strict=True)]
    wanted = hot_schema(schemas[-1])
    before_ops = len(wanted) - 2
    seqs = pa.chunked_array([numbers(np.arange(each.first_seq, each.last_seq + 1, dtype=np.int64)) for each in where])
    rows = parts[0] if len(parts) == 1 else pa.concat_tables(parts)
    try:
        # Reading a message checks no values: text with broken offsets would be read beyond its buffer.
        rows.validate()
    except pa.ArrowInvalid as error:  # of an earlier release, whose chunks have no checksum
        raise Corrupt(
            f"rows of {where[0].user!r} in {', '.join({each.key for each in where})} cannot be read: {error}"
        ) from error
    return rows.add_column(before_ops, wanted.field(before_ops), seqs)


@lru_cache(maxsize=1024)
def hot_schema(schema: TableSchema) -> pa.Schema:
    """Rows as they are read from the log."""
    fields = list(log_schema(schema))
    return pa.schema([*fields[:-1], pa.field(SEQ, pa.int64()), fields[-1]])


@lru_cache(maxsize=1024)
def _no_rows(schema: TableSchema, with_before: bool) -> pa.Table:
    wanted = hot_schema(schema)
    return (wanted.append(before_field(schema)) if with_before else wanted).empty_table()


def _columns(data: Payload, where: RowRange, schemas: tuple[TableSchema, ...], with_before: bool) -> pa.Table:
    # Rows of a version that this process does not know were written behind an ALTER that it has not seen.
    written = next((schema for schema in schemas if schema.version == where.schema_version), None)
    if written is None:
        raise Conflict(
            f"{where.key} holds rows of schema version {where.schema_version}, later than {schemas[-1].version}, "
            "which was read from the catalog; read the catalog again"
        )
    try:
        batch = pa.ipc.read_record_batch(pa.py_buffer(data), stored_schema(written))
    except (pa.ArrowInvalid, OSError) as error:
        raise Corrupt(f"rows of {where.user!r} in {where.key} cannot be read: {error}") from error
    # `_seq` is counted on from the header's number of rows: another count would move every later row's.
    if batch.num_rows != where.rows:
        raise Corrupt(f"{where.key} holds {batch.num_rows} rows of {where.user!r} where its header says {where.rows}")
    table = pa.Table.from_batches([batch])
    if not written.keeps_before:
        return _as_newest(table, written, schemas[-1])
    rows = _as_newest(table.drop_columns([BEFORE]), written, schemas[-1])
    return _with_before(rows, before_of(table), written, schemas[-1]) if with_before else rows


def _with_before(rows: pa.Table, before: tuple[pa.Table, pa.Array[Any]], written: TableSchema, newest: TableSchema) -> pa.Table:
    was = pa.table(_columns_of(before[0], written, newest), newest.names)
    return rows.append_column(before_field(newest), before_column(newest, was, before[1]))


def _as_newest(table: pa.Table, written: TableSchema, newest: TableSchema) -> pa.Table:
    """Returns the columns of the newest schema by their ids, from rows of an older one."""
    if written.version == newest.version:
        return table
    target = [table.column(TARGET)] if newest.append_only else []
    return pa.table([*_columns_of(table, written, newest), *target, table.column(OP)], schema=log_schema(newest))


def _columns_of(table: pa.Table, written: TableSchema, newest: TableSchema) -> list[Any]:
    # By id: a name may have been given to another column since.
    at = {column.id: index for index, column in enumerate(written.columns)}
    return [
        table.column(at[column.id]).cast(column.type.arrow)
        if column.id in at
        else initial_values(column.initial, column.type, len(table))
        for column in newest.columns
    ]


# Single rows for the log as Python values: the rows of calls that share a segment are encoded together.
#
# Encoding one row costs almost as much as encoding thirty, since most of it is the way into Arrow and back.


@dataclass(frozen=True)
class PlainRow:
    """A row to be written. Arrow takes its values, by column name, as they are; a missing one is NULL."""

    schema: TableSchema
    user: str
    """`""` for a SHARED table."""
    values: Mapping[str, object]

    @property
    def schema_version(self) -> int:
        return self.schema.version

    @cached_property
    def rows(self) -> pa.Table:
        """The columns of `LogBatch.rows`."""
        return pa.Table.from_pylist([{**self.values, OP: UPSERT, USER: self.user}], _owned_schema(self.schema)[0])

    @property
    def size(self) -> int:
        """About as many bytes as it will take."""
        values = self.values.values()
        return 16 * len(values) + sum([len(value) for value in values if isinstance(value, (str, bytes))])


Batch = LogBatch | PlainRow
"""What can be appended."""


def encoded(schema: TableSchema, rows: Sequence[Mapping[str, object]]) -> memoryview:
    """Returns the rows of one user as a chunk holds them."""
    whole: Any = pa.array([{**row, OP: UPSERT} for row in rows], _row_type(schema))
    return memoryview(pa.RecordBatch.from_struct_array(whole).serialize())


@lru_cache(maxsize=1024)
def _row_type(schema: TableSchema) -> pa.StructType:
    return pa.struct(list(log_schema(schema)))
