"""Declares a table's columns, primary key and partition columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from lakewarden.catalog.access import can
from lakewarden.catalog.column_types import NO_KEY, NO_PARTITION, ColumnType
from lakewarden.catalog.column_values import LiteralDefault, canonical_default, parse_default
from lakewarden.catalog.model import Column, SchemaColumn, TableSchema, TableType
from lakewarden.catalog.names import check_column
from lakewarden.errors import InvalidArgument, Unsupported


def declare(
    columns: Sequence[Column], primary_key: Sequence[str], type: TableType = "USER", partition_by: Sequence[str] = ()
) -> TableSchema:
    """The first schema version of a new table. Key columns are NOT NULL, however they were declared.

    A USER table needs a key. Only a SHARED table has partition columns.

    Raises:
        InvalidArgument: no columns, a bad name, type or default, a name twice, or a primary key that is missing, names a
            column twice or one that is not there, or has a type that cannot be a key; the same of partition columns, or
            there are no others.
        Unsupported: a FILE column of a STREAM table.
    """
    if not columns:
        raise InvalidArgument("a table needs at least one column")
    twice = [name for name, count in Counter(column.name.lower() for column in columns).items() if count > 1]
    if twice:
        raise InvalidArgument(f"column {twice[0]!r} is declared twice; names that differ only in case count as the same")
    declared = tuple(declare_column(number, column, column.name in primary_key) for number, column in enumerate(columns, 1))
    for column in declared:
        check_kind(column, append_only=type == "STREAM")
    if primary_key or can(type, "needs a primary key"):
        _check_key(declared, primary_key)
    if partition_by:
        _check_partitions(declared, partition_by, type)
    return TableSchema(1, declared, tuple(primary_key), type == "STREAM", tuple(partition_by))


def declare_column(number: int, column: Column, in_key: bool) -> SchemaColumn:
    """Raises InvalidArgument: a bad name, type or default."""
    name = check_column(column.name)
    with _named(name):
        kind = ColumnType.parse(column.type)
    return with_default(SchemaColumn(number, name, kind, column.nullable and not in_key, None), column.default)


def with_default(column: SchemaColumn, text: str | None) -> SchemaColumn:
    """Raises InvalidArgument: it is no default of such a column."""
    with _named(column.name):
        default = None if text is None else canonical_default(text, column.type)
    if default is not None and not column.nullable and parse_default(default, column.type) == LiteralDefault(None):
        raise InvalidArgument(f"column {column.name!r} is NOT NULL and cannot have the default NULL")
    return replace(column, default=default)


@contextmanager
def _named(column: str) -> Iterator[None]:
    """Names the column in errors."""
    try:
        yield
    except InvalidArgument as error:
        raise InvalidArgument(f"column {column!r}: {error.message}") from error


def check_kind(column: SchemaColumn, append_only: bool) -> None:
    """Raises Unsupported: a FILE column of a STREAM table, which has no place for files."""
    if append_only and column.type.name == "FILE":
        raise Unsupported(f"column {column.name!r}: STREAM tables have no FILE columns; USER and SHARED tables do")


def _check_key(columns: Sequence[SchemaColumn], primary_key: Sequence[str]) -> None:
    if not primary_key:
        raise InvalidArgument("a table needs a primary key: one or more of its columns")
    _check_named(columns, primary_key, "primary key", "a primary key cannot be on", NO_KEY)


def _check_partitions(columns: Sequence[SchemaColumn], partition_by: Sequence[str], type: TableType) -> None:
    if not can(type, "partitions"):
        raise InvalidArgument(f"PARTITION BY ({', '.join(partition_by)}) is for SHARED tables, and this is a {type} table")
    _check_named(columns, partition_by, "PARTITION BY", "a table cannot be partitioned by", NO_PARTITION)
    if len(partition_by) == len(columns):
        raise InvalidArgument(
            f"PARTITION BY ({', '.join(partition_by)}) names every column; a data file needs at least one other column"
        )


def _check_named(
    columns: Sequence[SchemaColumn], names: Sequence[str], clause: str, refusal: str, refused: frozenset[str]
) -> None:
    types = {column.name: column.type for column in columns}
    if len(set(names)) < len(names):
        raise InvalidArgument(f"{clause} ({', '.join(names)}) names a column twice")
    for name in names:
        if name not in types:
            raise InvalidArgument(f"{clause} column {name!r} is not there; the columns are {', '.join(types)}")
        if types[name].name in refused:
            raise InvalidArgument(f"column {name!r} is {types[name]}: {refusal} {', '.join(sorted(refused))}")
