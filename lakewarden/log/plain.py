"""Single rows for the log as Python values: the rows of calls that share a segment are encoded together.

Encoding one row costs almost as much as encoding thirty, since most of it is the way into Arrow and back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import pyarrow as pa

from lakewarden.catalog.model import TableSchema
from lakewarden.log.record import OP, UPSERT, LogBatch, log_batch, log_schema


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
        columns = [column for column in self.schema.columns if column.name in self.values]
        given = {column.name: pa.array([self.values[column.name]], column.type.arrow) for column in columns}
        return log_batch(self.schema, pa.table(given), self.user, UPSERT).rows

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
