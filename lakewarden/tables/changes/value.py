"""What a change feed returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from lakewarden.catalog.model import TableSchema
from lakewarden.delta.parquet import change_files
from lakewarden.log.record import SEQ, USER

CHANGE_TYPE: Final = change_files.CHANGE_TYPE

INSERT: Final = change_files.INSERT
PREIMAGE: Final = change_files.PREIMAGE
POSTIMAGE: Final = change_files.POSTIMAGE
DELETED: Final = change_files.DELETED


@dataclass(frozen=True)
class Changes:
    """The changes beyond one `_seq`, up to another.

    `rows` have the columns of `change_schema`, ascending by `_seq`; of an update the row before it comes first.
    """

    rows: pa.Table
    upto: int
    """The `_seq` after which the next changes come."""


def change_schema(schema: TableSchema, owned: bool) -> pa.Schema:
    """The table's columns, `_user` where rows belong to users (`owned`), `_change_type`, `_seq`."""
    own = [pa.field(column.name, column.type.arrow) for column in schema.shown]
    user = [pa.field(USER, pa.string())] if owned else []
    return pa.schema([*own, *user, pa.field(CHANGE_TYPE, pa.string()), pa.field(SEQ, pa.int64())])


def typed(rows: pa.Table, types: pa.Array[pa.StringScalar] | str, schema: pa.Schema) -> pa.Table:
    """Rows, with `_user` where the schema has it, and their change types, in the form of `schema`."""
    count = rows.num_rows
    given = dict(zip(rows.column_names, rows.columns, strict=True))
    given[CHANGE_TYPE] = pa.chunked_array([pa.repeat(types, count) if isinstance(types, str) else types])
    return pa.Table.from_arrays([given[name] for name in schema.names], schema=schema)
