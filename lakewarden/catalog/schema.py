"""Declares a table's columns and primary key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from lakewarden.catalog.defaults import LiteralDefault, canonical_default, parse_default
from lakewarden.catalog.model import Column, SchemaColumn, TableSchema
from lakewarden.catalog.names import check_column
from lakewarden.catalog.types import NO_KEY, ColumnType
from lakewarden.errors import InvalidArgument, Unsupported


def declare(columns: Sequence[Column], primary_key: Sequence[str], append_only: bool = False) -> TableSchema:
    """The first schema version of a new table. Key columns are NOT NULL, however they were declared.

    With `append_only` (STREAM tables) there may be no key.

    Raises:
        InvalidArgument: no columns, a bad name, type or default, a name twice, or a primary key that is missing, names a
            column twice or one that is not there, or has a type that cannot be a key.
    """
    if not columns:
        raise InvalidArgument("a table needs at least one column")
    twice = [name for name, count in Counter(column.name.lower() for column in columns).items() if count > 1]
    if twice:
        raise InvalidArgument(f"column {twice[0]!r} is declared twice; names that differ only in case count as the same")
    declared = tuple(declare_column(number, column, column.name in primary_key) for number, column in enumerate(columns, 1))
    for column in declared:
        check_kind(column, append_only)
    if primary_key or not append_only:
        _check_key(declared, primary_key)
    return TableSchema(1, declared, tuple(primary_key), append_only)


def declare_column(number: int, column: Column, in_key: bool) -> SchemaColumn:
    """Raises:
    InvalidArgument: a bad name, type or default.
    """
    name = check_column(column.name)
    try:
        kind = ColumnType.parse(column.type)
        default = None if column.default is None else canonical_default(column.default, kind)
    except InvalidArgument as error:
        raise InvalidArgument(f"column {name!r}: {error.message}") from error
    nullable = column.nullable and not in_key
    if not nullable and default is not None and parse_default(default, kind) == LiteralDefault(None):
        raise InvalidArgument(f"column {name!r} is NOT NULL and cannot have the default NULL")
    return SchemaColumn(number, name, kind, nullable, default)


def check_kind(column: SchemaColumn, append_only: bool) -> None:
    """Raises:
    Unsupported: a FILE column of a STREAM table, which has no place for files.
    """
    if append_only and column.type.name == "FILE":
        raise Unsupported(f"column {column.name!r}: STREAM tables have no FILE columns; USER and SHARED tables do")


def _check_key(columns: Sequence[SchemaColumn], primary_key: Sequence[str]) -> None:
    types = {column.name: column.type for column in columns}
    if not primary_key:
        raise InvalidArgument("a table needs a primary key: one or more of its columns")
    if len(set(primary_key)) < len(primary_key):
        raise InvalidArgument(f"primary key ({', '.join(primary_key)}) names a column twice")
    for name in primary_key:
        if name not in types:
            raise InvalidArgument(f"primary key column {name!r} is not there; the columns are {', '.join(types)}")
        if types[name].name in NO_KEY:
            raise InvalidArgument(f"column {name!r} is {types[name]}: a primary key cannot be on {', '.join(sorted(NO_KEY))}")
