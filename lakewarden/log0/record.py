"""A row in the log: the table's columns and what the log adds to them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa

from lakewarden.catalog.model import TableSchema

USER = "_user"
OP = "_op"
SEQ = "_seq"

UPSERT = 0
DELETE = 1

SHARED = ""
"""Stands for the user of a SHARED table; no user id is empty."""


@dataclass(frozen=True)
class LogBatch:
    """Rows as they are appended: the columns of `log_schema` and `_user`, in the order of arrival."""

    schema_version: int
    rows: pa.Table


@lru_cache(maxsize=1024)
def log_schema(schema: TableSchema) -> pa.Schema:
    """The columns of a row in a segment. All are nullable: a tombstone has its key alone."""
    return pa.schema([*((column.name, column.type.arrow) for column in schema.columns), (OP, pa.int8())])


@lru_cache(maxsize=1024)
def carry_schema(schema: TableSchema) -> pa.Schema:
    """The columns of a row in a carry: those of a segment, and the `_seq` that its first place gave it."""
    return log_schema(schema).append(pa.field(SEQ, pa.int64()))
