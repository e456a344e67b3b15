"""The columns of a table as Spark sees them: the table's, then `_user` and `_seq`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from lakewarden.arrays import numbers, texts
from lakewarden.catalog.model import TableSchema
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


def read_columns(schema: TableSchema) -> tuple[str, ...]:
    """What is read of a scope: all columns but those that `*` leaves out."""
    return (*(column.name for column in schema.shown), SEQ)


def batches(scopes: Iterable[Owned], schema: TableSchema) -> Iterator[pa.RecordBatch]:
    """The rows of scopes, with their users."""
    held: list[Owned] = []
    rows = 0
    for user, found in scopes:
        if found.num_rows:
            held.append((user, found))
            rows += found.num_rows
        if rows >= _GATHERED:
            yield from _joined(held, schema)
            held, rows = [], 0
    if held:
        yield from _joined(held, schema)


def _joined(held: Sequence[Owned], schema: TableSchema) -> list[pa.RecordBatch]:
    names = read_columns(schema)
    rows = pa.concat_tables([found.select(names) for _, found in held])
    columns = [*rows.columns[:-1], pa.chunked_array([_owners(held)]), rows.column(SEQ)]
    return pa.Table.from_arrays(columns, schema=source_schema(schema)).combine_chunks().to_batches(_BATCH)


def _owners(held: Sequence[Owned]) -> pa.Array[Any]:
    """Each row's user."""
    counts = [found.num_rows for _, found in held]
    users = [user for user, _ in held if user is not None]
    if not users:
        return pa.nulls(sum(counts), pa.string())
    return pa.DictionaryArray.from_arrays(numbers(np.repeat(np.arange(len(held)), counts)), texts(users)).cast(pa.string())
