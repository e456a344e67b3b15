"""One attempt at a batch: read its objects, fit them to the table, name the outcome, commit.

Whoever finds a batch that is not settled attempts it, also beside another process. The outcome is named in the ledger before
the commit, under a number of its own, and the commit carries that number: so of all attempts one counts, and its outcome is known
wherever a process stops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa

from lakewarden.catalog.changes import replace_table
from lakewarden.catalog.model import Catalog, Table
from lakewarden.catalog.pipeline import Pipeline
from lakewarden.catalog.pipelines import blank_of, land_blank, materialize, table_of
from lakewarden.errors import Conflict
from lakewarden.faults import Reach, no_faults
from lakewarden.operations.direct.value import Once
from lakewarden.pipelines.ingest.fit import Fitted, Fitting
from lakewarden.pipelines.ingest.landing import Landing
from lakewarden.pipelines.ingest.reading import Reading
from lakewarden.pipelines.ledger.entries import Attempt, Batch
from lakewarden.pipelines.ledger.ledger import Ledger
from lakewarden.pipelines.rejects import Reject, note_rejects
from lakewarden.table import TableClient
from lakewarden.warehouse import Warehouse

_RUNS = 4
"""How often a batch is attempted where others change its table meanwhile."""


@dataclass(frozen=True)
class Landed:
    """The attempt that counts. `version` of Delta, where this process made its commit."""

    attempt: int
    version: int | None = None


@dataclass(frozen=True)
class Attempts:
    """Attempts at the batches of one pipeline."""

    warehouse: Warehouse
    pipeline: Pipeline
    ledger: Ledger
    reading: Callable[[Batch, Path], Reading]
    job_id: str
    reach: Reach = no_faults

    def finish(self, batch: Batch, *, fresh: bool) -> tuple[Attempt, int | None] | None:
        """Makes the batch count, settles it, and returns the attempt that counts; None where another process settled it.

        Args:
            fresh: this process has just created it, so hardly another has attempted it.

        Raises:
            Conflict: others kept changing the table.
            NotFound: the table was dropped.
        """
        landed = self._made(batch, fresh=fresh)
        attempt = None if landed is None else self.ledger.attempt(landed.attempt)
        if landed is None or attempt is None:
            return None
        self._settle(batch, attempt)
        return attempt, landed.version

    def _made(self, batch: Batch, *, fresh: bool) -> Landed | None:
        """Returns None where another process settled the batch."""
        for run in range(_RUNS):
            landed = None if fresh and not run else self._landed(batch)
            if landed is not None:
                return landed
            try:
                return self._attempted(batch)
            except Conflict:
                if run + 1 == _RUNS:
                    raise
        return None

    def _landed(self, batch: Batch) -> Landed | None:
        """The attempt at the batch that counts, if one does."""
        catalog = self.warehouse.catalog.read()
        blank = catalog.pipelines[self.pipeline.id].landed
        if blank > batch.number:
            return Landed(blank)
        table = table_of(catalog, self.pipeline)
        last = None if table is None else TableClient.of(self.warehouse, table).direct.last_once(self.pipeline.id)
        return Landed(last) if last is not None and last > batch.number else None

    def _attempted(self, batch: Batch) -> Landed | None:
        """Returns None where the batch is settled."""
        with TemporaryDirectory(prefix="lakewarden-ingest-") as directory:
            fitting = Fitting(self.pipeline, self.warehouse.clock, self.warehouse.new_id)
            before = self._table(self.warehouse.catalog.read())
            fitted = fitting.fit(before, self.reading(batch, Path(directory)))
            self.reach("ingest:read")
            table = self._grown(before, fitted, batch)
            self.reach("ingest:grown")
            attempt = self._add(batch, fitted)
            self.reach("ingest:named")
            return None if attempt is None else self._commit(batch, attempt, table, fitted, fitting)

    def _table(self, catalog: Catalog) -> Table:
        """The table; as a blank one without schemas where it has none yet."""
        return table_of(catalog, self.pipeline) or blank_of(catalog, self.pipeline)

    def _grown(self, before: Table, fitted: Fitted, batch: Batch) -> Table:
        """The table in the catalog with all columns that the objects need."""
        after = fitted.table
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

        return self._table(self.warehouse.catalog.change(step))

    def _add(self, batch: Batch, fitted: Fitted) -> Attempt | None:
        while True:
            view = self.ledger.look()
            if view.settled >= batch.number:
                return None
            attempt = Attempt(view.next, batch.number, self.job_id, self.warehouse.clock(), fitted.taken)
            if self.ledger.add(attempt):
                return attempt

    def _commit(self, batch: Batch, attempt: Attempt, table: Table, fitted: Fitted, fitting: Fitting) -> Landed:
        if not table.schemas:
            catalog = self.warehouse.catalog.change(
                lambda catalog: land_blank(catalog, self.pipeline.id, attempt.number, batch.number)
            )
            return Landed(catalog.pipelines[self.pipeline.id].landed)
        client = TableClient.of(self.warehouse, table)
        replaced = [
            offered.object.key
            for offered, taken in zip(batch.objects, attempt.taken, strict=True)
            if offered.replaces and taken.outcome == "ingested"
        ]
        once = Once(self.pipeline.id, attempt.number, batch.number)

        def rows() -> Iterator[pa.Table]:
            for one in fitted.rows:
                yield from fitting.checked(table.schema, one)

        done = Landing(client, rows, replaced, once).run()
        self.reach("ingest:committed")
        if not done.repeated:
            return Landed(attempt.number, done.version)
        last = client.direct.last_once(self.pipeline.id)
        if last is None:
            raise Conflict(f"{table.name} was restored or repaired under an ingest; try again")
        return Landed(last)

    def _settle(self, batch: Batch, attempt: Attempt) -> None:
        pairs = list(zip(batch.objects, attempt.taken, strict=True))
        rejects = [
            Reject(offered.object.key, offered.object.etag, taken.reason, attempt.at, offered.object.size)
            for offered, taken in pairs
            if taken.outcome == "rejected"
        ]
        retaken = [offered.object.key for offered, taken in pairs if offered.replaces and taken.outcome != "left"]
        once = Once(self.pipeline.id, attempt.number)
        note_rejects(self.warehouse, self.pipeline, rejects, retaken, once, attempt.job_id)
        self.reach("ingest:rejects")
        self.ledger.settle(batch, attempt)
        self.reach("ingest:settled")
