"""What the tables of a pipeline remember of it: the numbers of its ledger under which they were written to."""

from __future__ import annotations

from dataclasses import dataclass

from lakewarden.base.scope import TableName
from lakewarden.catalog.model import Catalog, Pipeline, Table
from lakewarden.delta.scope import open_place, open_scope
from lakewarden.log.once import LastBatch
from lakewarden.tables.direct.identities import last_certain, last_write, transaction_app
from lakewarden.tables.warehouse import Warehouse

REJECTS = "_rejects"
"""What the name of the table with a pipeline's rejects ends in."""


@dataclass(frozen=True)
class PipelineMemory:
    """What one of a pipeline's tables remembers."""

    table: Table
    last: LastBatch
    last_certain: int | None = None
    """Where the last one is uncertain."""


@dataclass(frozen=True)
class Memories:
    """`blank`: the last attempt that counts by the catalog, from when the table had no schema."""

    tables: tuple[PipelineMemory, ...]
    blank: int

    @property
    def landed(self) -> int:
        """The highest number that any of them remembers."""
        return max([self.blank, *(each.last.number or 0 for each in self.tables)])

    @property
    def uncertain(self) -> tuple[PipelineMemory, ...]:
        return tuple(each for each in self.tables if not each.last.certain)


def memories_of(warehouse: Warehouse, catalog: Catalog, pipeline: Pipeline) -> Memories:
    """Raises:
    Corrupt, StorageUnavailable: a table cannot be opened.
    """
    blank = catalog.blanks.get(pipeline.table)
    rejects = catalog.tables.get(TableName(pipeline.table.namespace, f"{pipeline.table.name}{REJECTS}"))
    there = [catalog.tables.get(pipeline.table), blank, rejects]
    own = [table for table in there if table is not None and not table.dropping]
    own = [table for table in own if table is rejects or table.id == pipeline.table_id]
    found = (_memory(warehouse, catalog, table, pipeline, blank=table is blank) for table in own)
    return Memories(tuple(found), catalog.pipelines[pipeline.id].landed)


def _memory(warehouse: Warehouse, catalog: Catalog, table: Table, pipeline: Pipeline, *, blank: bool) -> PipelineMemory:
    """Of a blank table, what lies at its place: the state may be older than its first schema."""
    target = warehouse.bare_target(catalog, table, None) if blank else warehouse.target_of(catalog, table, None)
    opened = open_place(target) if blank else open_scope(target)
    if opened is None:
        return PipelineMemory(table, LastBatch(None))
    app = transaction_app(table.id, pipeline.id)
    last = last_write(opened, app)
    return PipelineMemory(table, last, None if last.certain else last_certain(opened, app))
