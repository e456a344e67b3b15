"""The columns of a table as Spark sees them: the table's, then `_user` and `_seq`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from lakewarden.base.arrays import numbers, texts
from lakewarden.catalog.model import TableSchema
from lakewarden.errors import InvalidArgument
from lakewarden.log.record import SEQ, USER

_GATHERED = 1 << 16
"""Rows from which batches are made: those of many small scopes together."""

_BATCH = 1 << 14
"""The most rows of a batch."""

Owned = tuple[str | None, pa.Table]
"""A scope's user (None for a SHARED table), and rows of it."""


def source_schema(schema: TableSchema) -> pa.Schema:
    """The columns of a source's rows in Arrow."""
    own = [pa.field(column.name, column.type.arrow) for column in schema.shown]
    return pa.schema([*own, pa.field(USER, pa.string()), pa.field(SEQ, pa.int64())])


def spark_schema(schema: TableSchema) -> StructType:
    """The same in Spark's types."""
    return from_arrow_schema(source_schema(schema))


def chosen(there: pa.Schema, asked: StructType | None) -> pa.Schema:
    """The columns of a query: all that are there, or those that `.schema(…)` names, in its order.

    Raises:
        InvalidArgument: a column is not there, or has another type; or none is named.
    """
    if asked is None:
        return there
    types = {field.name: field.dataType for field in from_arrow_schema(there)}
    if absent := [field.name for field in asked if field.name not in types]:
        raise InvalidArgument(f"no such column: {', '.join(absent)}; the columns are {', '.join(types)}")
    if other := [field for field in asked if field.dataType != types[field.name]]:
        named = ", ".join(f"{field.name} as {field.dataType.simpleString()}" for field in other)
        right = ", ".join(f"{field.name} {types[field.name].simpleString()}" for field in other)
        raise InvalidArgument(f"the schema has {named}; it is {right}: select the columns as they are, and cast them")
    if not asked.names:
        raise InvalidArgument(f"the schema names no column; the columns are {', '.join(types)}")
    return pa.schema([there.field(name) for name in asked.names])


def read_columns(columns: pa.Schema) -> tuple[str, ...]:
    """What is read of a scope for these columns of a query."""
    return tuple(name for name in columns.names if name != USER) or (SEQ,)


def batches(scopes: Iterable[Owned], columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of scopes, with the columns of a query."""
    held: list[Owned] = []
    rows = 0
    for user, found in scopes:
        if found.num_rows:
            held.append((user, found))
            rows += found.num_rows
        if rows >= _GATHERED:
            yield from _joined(held, columns)
            held, rows = [], 0
    if held:
        yield from _joined(held, columns)


def _joined(held: Sequence[Owned], columns: pa.Schema) -> list[pa.RecordBatch]:
    rows = pa.concat_tables([found.select(read_columns(columns)) for _, found in held])
    given = [pa.chunked_array([_owners(held)]) if name == USER else rows.column(name) for name in columns.names]
    return pa.Table.from_arrays(given, schema=columns).combine_chunks().to_batches(_BATCH)


def _owners(held: Sequence[Owned]) -> pa.Array[Any]:
    """Each row's user."""
    counts = [found.num_rows for _, found in held]
    users = [user for user, _ in held if user is not None]
    if not users:
        return pa.nulls(sum(counts), pa.string())
    return pa.DictionaryArray.from_arrays(numbers(np.repeat(np.arange(len(held)), counts)), texts(users)).cast(pa.string())
