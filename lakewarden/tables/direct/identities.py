"""How a Delta table keeps who wrote to it: a transaction identifier for each writer, with the number of its last write."""

from __future__ import annotations

from dataclasses import dataclass

from lakewarden.base.scope import TableName
from lakewarden.catalog.model import Catalog, Pipeline, Table
from lakewarden.delta.scope import open_place, open_scope
from lakewarden.delta.table import ScopeTable
from lakewarden.log.once import ANY, LastBatch
from lakewarden.tables.warehouse import Warehouse

_ONCE, _CERTAIN = "lakewarden/once", "lakewarden/certain"


def transaction_app(table_id: str, writer: str) -> str:
    """The application id in Delta: a table that is made in the place of a dropped one has none of its writes."""
    # With the table's id: the checkpoint of a fence keeps the identifiers of the table that was dropped
    # (docs/decisions/0047-direct-writes.md).
    return f"{_ONCE}/{table_id}/{writer}"


def is_writer(app: str) -> bool:
    """Whether an application id in Delta is a writer's."""
    return app.startswith(f"{_ONCE}/")


def writer_of(app: str) -> str:
    """The writer whose application id that is."""
    return app.removeprefix(f"{_ONCE}/").partition("/")[2]


def certain_app(app: str) -> str:
    """The application id of a writer's last certain write, where its last one is not (`log.once`)."""
    return f"{_CERTAIN}/{app.removeprefix(f'{_ONCE}/')}"


def last_write(table: ScopeTable, app: str) -> LastBatch:
    """The last write of a writer that the table has."""
    kept = table.watermark(app)
    # A writer that is not kept may be one of whom a repair lost everything (docs/decisions/0100-identities-behind-a-repair.md).
    return LastBatch.of(table.watermark(_any(app)) if kept is None else kept)


def last_certain(table: ScopeTable, app: str) -> int | None:
    """The last one that is certain, of a writer whose last one is not; None without one."""
    return LastBatch.of(table.watermark(certain_app(app))).number


def _any(app: str) -> str:
    return f"{app.removesuffix(writer_of(app))}{ANY}"


# What the tables of a pipeline remember of it: the numbers of its ledger under which they were written to.
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
    # A table of the same name that was made anew is another one's.
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
