"""An attempt at a batch by this process: its objects are read beside each other, its rows pass through."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa

from lakewarden.catalog.model import Table
from lakewarden.catalog.state.ledger import LOOKS, Attempt, ObjectBatch
from lakewarden.ingest.objects.context import CountingAttempt, IngestContext
from lakewarden.ingest.objects.fit import FitResult
from lakewarden.ingest.objects.landing import Incoming, TableLanding, keys_of, last_of_each, replaced_by
from lakewarden.ingest.objects.reading import ReadWith
from lakewarden.tables.direct.value import WriteIdentity


@dataclass(frozen=True)
class Here:
    """Attempts in this process."""

    context: IngestContext
    read: ReadWith

    def attempted(self, batch: ObjectBatch) -> CountingAttempt | None:
        """Returns None where the batch is settled."""
        context = self.context
        with TemporaryDirectory(prefix="lakewarden-ingest-") as directory:
            reading = self.read(context.source, context.pipeline, batch.objects, Path(directory))
            before = context.table()
            fitted = context.fitting.fit(before, reading)
            context.reach("ingest:read")
            table = context.grow(before, fitted.table, batch)
            context.reach("ingest:grown")
            attempt = self._named(batch, fitted)
            context.reach("ingest:named")
            return None if attempt is None else self._commit(batch, attempt, table, fitted)

    def _named(self, batch: ObjectBatch, fitted: FitResult) -> Attempt | None:
        for _ in range(LOOKS):
            view = self.context.ledger.look()
            if view.settled >= batch.number:
                return None
            attempt = self.context.named(view.next, batch, fitted.taken)
            if attempt is not None:
                return attempt
        raise self.context.ledger.busy()

    def _commit(self, batch: ObjectBatch, attempt: Attempt, table: Table, fitted: FitResult) -> CountingAttempt:
        context = self.context
        if not table.schemas:
            return context.land_blank(batch, attempt)
        direct, once = context.direct(table), WriteIdentity(context.pipeline.id, attempt.number, batch.number)

        def rows() -> Iterator[pa.Table]:
            for one in fitted.rows:
                yield from context.fitting.checked(table.schema, one)

        keys = keys_of(table.schema, rows() if table.schema.keyed else iter(()))
        given = last_of_each(table.schema, keys, rows()) if table.schema.keyed else rows()
        replaced = replaced_by(batch, attempt.taken)
        done = TableLanding(direct, once, replaced).run(Incoming(given, lambda: keys, lambda: replaced))
        return context.landed_by(direct, attempt, done)
