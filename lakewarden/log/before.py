"""The column `_before` of the log: the row before each row, where the table keeps it."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.catalog.model import TableSchema

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
