"""Takes the row before each row of a write: the live one with its key, or the one before it in the same write."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.base.arrays import flags
from lakewarden.base.scope import Scope
from lakewarden.catalog.model import Table, TableSchema
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.reading.before import rows_before
from lakewarden.delta.reading.keys import Keys
from lakewarden.delta.reading.rows import empty_rows
from lakewarden.errors import NotFound, SchemaChanged
from lakewarden.log.before import BEFORE, before_column, before_field
from lakewarden.log.plain import Batch
from lakewarden.log.record import LogBatch
from lakewarden.log.view import LogView
from lakewarden.tables.reading.keys import key_bounds
from lakewarden.tables.reading.rows_by_key import live_rows
from lakewarden.tables.reading.scope import ReadSelection, use_live
from lakewarden.tables.warehouse import Warehouse, find_table

FEW = 100
"""Rows up to which each key is looked up by itself; for more, the live rows that may have one of them are gone through."""


@dataclass(frozen=True)
class Images:
    """Of a SHARED table."""

    warehouse: Warehouse
    table: Table

    def newest(self) -> Table:
        """The table as the catalog has it now.

        Raises:
            NotFound: it was dropped.
        """
        table = find_table(self.warehouse.catalog.read(), self.table.name)
        if table.id != self.table.id:
            raise NotFound(f"table {table.name} was dropped, and is another one now; open it again")
        return table

    def taken(self, batch: Batch, table: Table, view: LogView | None = None) -> LogBatch:
        """The batch with what is before its rows now, under the newest schema. The caller appends it behind the last position of
        the view, or the one that the log had before the call: then nothing came between.

        Args:
            table: as it is now.
            view: of the log, if there is one; what is acknowledged later need not be seen.

        Raises:
            Conflict: flushes kept settling the rows while they were read.
            SchemaChanged: the rows are not of the newest columns.
        """
        check_newest(table, batch.schema_version)
        return with_before(LogBatch(batch.schema_version, batch.rows), self._live(batch.rows, table, view), table.schema)

    def _live(self, rows: pa.Table, table: Table, view: LogView | None) -> pa.Table:
        place = partial(self.place, table)
        primary_key, log, cold = table.schema.primary_key, self.warehouse.log(table), self.warehouse.cold
        if rows.num_rows <= FEW:
            return live_rows(place, log, view or log.view(("",)), rows, self.warehouse.pending_keys, cold)
        keys = Keys(rows, primary_key)

        def found(parts: Iterator[pa.Table]) -> pa.Table:
            return pa.concat_tables([part.filter(pc.is_valid(keys.places(part))) for part in parts])

        return use_live(place, log, ReadSelection(bounds=key_bounds(primary_key, rows)), cold, found)

    def place(self, table: Table) -> ScopeTarget:
        target = self.warehouse.target(self.warehouse.catalog.read(), Scope(table.name, None))
        return replace(target, schemas=table.schemas)


def check_newest(table: Table, *versions: int) -> None:
    """Raises:
    SchemaChanged: rows of these schema versions are not all of the newest columns.
    """
    if any(version != table.schema.version for version in versions):
        raise SchemaChanged(f"the columns of {table.name} were changed since the rows were made; nothing was written, try again")


def with_before(batch: LogBatch, live: pa.Table, schema: TableSchema) -> LogBatch:
    """The batch with the rows before its own.

    Args:
        live: as in `rows_before`.
        schema: the batch's.
    """
    before = rows_before(live, batch.rows, schema.primary_key)
    column = before_column(schema, before.aligned, flags(before.was))
    return LogBatch(schema.version, batch.rows.append_column(before_field(schema), column))


def inserted(batch: Batch, schema: TableSchema) -> LogBatch:
    """The batch with the rows before its own, where no live row has a key of it."""
    return with_before(LogBatch(batch.schema_version, batch.rows), empty_rows(schema), schema)


def has_before(batch: Batch) -> bool:
    return BEFORE in batch.rows.column_names
