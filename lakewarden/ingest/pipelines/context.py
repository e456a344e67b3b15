"""What every attempt of an ingest works with and goes through: its pipeline, the ledger, the catalog and the table as of now."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from lakewarden.base.faults import Reach, no_faults
from lakewarden.catalog.changes.objects import replace_table
from lakewarden.catalog.changes.pipelines import blank_of, land_blank, materialize, table_of
from lakewarden.catalog.model import Catalog, Pipeline, Table
from lakewarden.catalog.state.ledger import Attempt, Ledger, ObjectBatch, ObjectFate
from lakewarden.catalog.state.ledger_faults import faults_of
from lakewarden.errors import Conflict, Corrupt
from lakewarden.ingest.pipelines.fit import PipelineFitting
from lakewarden.ingest.pipelines.rejects import RejectedObject, note_rejects
from lakewarden.ingest.pipelines.source import PipelineSource
from lakewarden.log.once import Resume, WriterBatch, stopped
from lakewarden.maintenance.open_table import open_table
from lakewarden.tables.client.direct import DirectWrites
from lakewarden.tables.direct.identities import memories_of
from lakewarden.tables.direct.run import resume_at
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


# Attempts at a batch: read its objects, fit them to the table, name the outcome, commit.
#
# Whoever finds a batch that is not settled attempts it, also beside another process. The outcome is named in the ledger before
# the commit, under a number of its own, and the commit carries that number: so of all attempts one counts, and its outcome is
# known wherever a process stops.

_RUNS = 4
"""How often a batch is attempted where others change its table meanwhile."""


Attempted = Callable[[ObjectBatch], CountingAttempt | None]
"""Makes one attempt; None where the batch is settled."""


def finish_batch(
    context: IngestContext, attempted: Attempted, batch: ObjectBatch, *, fresh: bool
) -> tuple[Attempt, int | None] | None:
    """Makes the batch count, settles it, and returns the attempt that counts; None where another process settled it.

    Args:
        fresh: this process has just created it, so hardly another has attempted it.

    Raises:
        Conflict: others kept changing the table.
        NotFound: the table was dropped.
        Corrupt: the ledger has not what the table has.
    """
    landed = _made(context, attempted, batch, fresh=fresh)
    attempt = None if landed is None else context.ledger.attempt(landed.attempt, batch)
    if landed is None or attempt is None:
        return None
    _settle(context, batch, attempt)
    return attempt, landed.version


def _made(context: IngestContext, attempted: Attempted, batch: ObjectBatch, *, fresh: bool) -> CountingAttempt | None:
    """Returns None where another process settled the batch."""
    for run in range(_RUNS):
        landed = None if fresh and not run else context.landed(batch)
        if landed is not None:
            return landed
        try:
            return attempted(batch)
        except Conflict:
            if run + 1 == _RUNS:
                raise
    return None


def _settle(context: IngestContext, batch: ObjectBatch, attempt: Attempt) -> None:
    pairs = list(zip(batch.objects, attempt.taken, strict=True))
    rejects = [
        RejectedObject(offered.object.key, offered.object.etag, taken.reason, attempt.at, offered.object.size)
        for offered, taken in pairs
        if taken.outcome == "rejected"
    ]
    retaken = [offered.object.key for offered, taken in pairs if offered.replaces and taken.outcome != "left"]
    once = WriterBatch(context.pipeline.id, attempt.number)
    note_rejects(context.warehouse, context.pipeline, rejects, retaken, once, attempt.job_id)
    context.reach("ingest:rejects")
    context.ledger.settle(batch, attempt)
    context.reach("ingest:settled")


# Before an ingest: that the ledger knows what its tables have, and that no repair left it uncertain.
#
# A repair that could not bring back all rows of a pipeline's writes leaves its last number uncertain. Then the ledger says that
# objects are taken whose rows may be gone. `repeat` makes everything unknown that is not certain, so that it is taken again in
# place of what came back; `skip` lets it count as taken.


def check_resumed(warehouse: Warehouse, pipeline: Pipeline, ledger: Ledger, how: Resume | None) -> None:
    """Raises:
    FailedPrecondition: a repair left uncertain what was taken, and nothing says how to go on.
    Corrupt: the ledger lacks something that its tables have.
    Conflict, StorageUnavailable: try again.
    """
    found = memories_of(warehouse, warehouse.catalog.read(), pipeline)
    if found.uncertain and how is None:
        one = found.uncertain[0]
        raise stopped(pipeline.id, one.table.name, one.last.number)
    faults = faults_of(ledger, found.landed)
    if faults:
        raise Corrupt(
            f"the ledger of {pipeline.table} lacks something: {faults.summary};"
            f" `lakewarden repair {pipeline.table}` goes on without it"
        )
    if not found.uncertain or how is None:
        return
    view = ledger.look()
    certain = min(each.last_certain or 0 for each in found.uncertain) if how == "repeat" else view.settled
    if certain < view.next - 1:
        ledger.give_up(certain + 1, view.next - 1)
    settled = ledger.look().settled
    # The tables last: until then it may be repeated.
    for each in found.uncertain:
        resume_at(warehouse, each.table, pipeline.id, how, settled or None)
