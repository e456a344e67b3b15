"""What every attempt of an ingest works with: its pipeline, the ledger, the catalog and the table as they are now."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lakewarden.base.faults import Reach, no_faults
from lakewarden.catalog.changes.objects import replace_table
from lakewarden.catalog.changes.pipelines import blank_of, land_blank, materialize, table_of
from lakewarden.catalog.model import Catalog, Pipeline, Table
from lakewarden.catalog.state.ledger import Attempt, Ledger, ObjectBatch, ObjectFate
from lakewarden.errors import Conflict
from lakewarden.ingest.objects.fit import PipelineFitting
from lakewarden.ingest.pipelines.source import PipelineSource
from lakewarden.maintenance.open_table import open_table
from lakewarden.tables.client.direct import DirectWrites
from lakewarden.tables.direct.value import DirectResult
from lakewarden.tables.warehouse import Warehouse


@dataclass(frozen=True)
class CountingAttempt:
    """The attempt that counts. `version` of Delta, where this process made its commit."""

    attempt: int
    version: int | None = None


@dataclass(frozen=True)
class IngestContext:
    """One ingest into one table."""

    warehouse: Warehouse
    pipeline: Pipeline
    source: PipelineSource
    ledger: Ledger
    job_id: str
    reach: Reach = no_faults

    @property
    def fitting(self) -> PipelineFitting:
        return PipelineFitting(self.pipeline, self.warehouse.clock, self.warehouse.new_id)

    def table(self) -> Table:
        """The table; as a blank one without schemas where it has none yet. Raises `NotFound` if it was dropped."""
        return self._table(self.warehouse.catalog.read())

    def direct(self, table: Table) -> DirectWrites:
        return replace(open_table(self.warehouse, table).direct, job_id=self.job_id, reach=self.reach)

    def landed(self, batch: ObjectBatch) -> CountingAttempt | None:
        """The attempt at the batch that counts, if one does."""
        catalog = self.warehouse.catalog.read()
        blank = catalog.pipelines[self.pipeline.id].landed
        if blank > batch.number:
            return CountingAttempt(blank)
        table = table_of(catalog, self.pipeline)
        last = None if table is None else self.direct(table).last_once(self.pipeline.id)
        return CountingAttempt(last) if last is not None and last > batch.number else None

    def land_blank(self, batch: ObjectBatch, attempt: Attempt) -> CountingAttempt:
        """Lets an attempt without rows count while the table has no schema."""
        catalog = self.warehouse.catalog.change(
            lambda catalog: land_blank(catalog, self.pipeline.id, attempt.number, batch.number)
        )
        return CountingAttempt(catalog.pipelines[self.pipeline.id].landed)

    def landed_by(self, direct: DirectWrites, attempt: Attempt, done: DirectResult) -> CountingAttempt:
        """The attempt that counts after a write of this one."""
        self.reach("ingest:committed")
        if not done.repeated:
            return CountingAttempt(attempt.number, done.version)
        last = direct.last_once(self.pipeline.id)
        if last is None:
            raise Conflict(f"{direct.table.name} was restored or repaired under an ingest; try again")
        return CountingAttempt(last)

    def grow(self, before: Table, after: Table, batch: ObjectBatch) -> Table:
        """Gives the table in the catalog all columns that the objects need; returns it as it is then.

        Raises:
            Conflict: others changed its columns meanwhile.
        """
        if after.schemas == before.schemas:
            return before

        def step(catalog: Catalog) -> Catalog:
            if not before.schemas:
                catalog = materialize(catalog, self.pipeline, after.schemas[0], batch.number, self.warehouse.base)
            there = self._table(catalog)
            if there.schemas == after.schemas:
                return catalog
            if there.schemas not in (before.schemas, after.schemas[:1]):
                raise Conflict(f"the columns of {after.name} were changed meanwhile; try again")
            return replace_table(catalog, replace(there, schemas=after.schemas), self.warehouse.base)

        table = self._table(self.warehouse.catalog.change(step))
        self.warehouse.log(table).require_columns(table.schema.version)
        return table

    def named(self, number: int, batch: ObjectBatch, taken: tuple[ObjectFate, ...]) -> Attempt | None:
        """Names the outcome of an attempt; None where another entry has the number, or the batch is settled."""
        attempt = Attempt(number, batch.number, self.job_id, self.warehouse.clock(), taken)
        return attempt if self.ledger.add(attempt) else None

    def _table(self, catalog: Catalog) -> Table:
        return table_of(catalog, self.pipeline) or blank_of(catalog, self.pipeline)
