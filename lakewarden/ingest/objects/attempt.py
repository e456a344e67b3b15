"""Attempts at a batch: read its objects, fit them to the table, name the outcome, commit.

Whoever finds a batch that is not settled attempts it, also beside another process. The outcome is named in the ledger before
the commit, under a number of its own, and the commit carries that number: so of all attempts one counts, and its outcome is known
wherever a process stops.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lakewarden.catalog.state.ledger import Attempt, ObjectBatch
from lakewarden.errors import Conflict
from lakewarden.ingest.objects.context import CountingAttempt, IngestContext
from lakewarden.ingest.pipelines.rejects import RejectedObject, note_rejects
from lakewarden.tables.direct.value import WriteIdentity

_RUNS = 4
"""How often a batch is attempted where others change its table meanwhile."""


@dataclass(frozen=True)
class BatchAttempts:
    """Attempts at the batches of one pipeline."""

    context: IngestContext
    attempted: Callable[[ObjectBatch], CountingAttempt | None]
    """Makes one attempt; None where the batch is settled."""

    def finish(self, batch: ObjectBatch, *, fresh: bool) -> tuple[Attempt, int | None] | None:
        """Makes the batch count, settles it, and returns the attempt that counts; None where another process settled it.

        Args:
            fresh: this process has just created it, so hardly another has attempted it.

        Raises:
            Conflict: others kept changing the table.
            NotFound: the table was dropped.
            Corrupt: the ledger has not what the table has.
        """
        landed = self._made(batch, fresh=fresh)
        attempt = None if landed is None else self.context.ledger.attempt(landed.attempt, batch)
        if landed is None or attempt is None:
            return None
        self._settle(batch, attempt)
        return attempt, landed.version

    def _made(self, batch: ObjectBatch, *, fresh: bool) -> CountingAttempt | None:
        """Returns None where another process settled the batch."""
        for run in range(_RUNS):
            landed = None if fresh and not run else self.context.landed(batch)
            if landed is not None:
                return landed
            try:
                return self.attempted(batch)
            except Conflict:
                if run + 1 == _RUNS:
                    raise
        return None

    def _settle(self, batch: ObjectBatch, attempt: Attempt) -> None:
        context = self.context
        pairs = list(zip(batch.objects, attempt.taken, strict=True))
        rejects = [
            RejectedObject(offered.object.key, offered.object.etag, taken.reason, attempt.at, offered.object.size)
            for offered, taken in pairs
            if taken.outcome == "rejected"
        ]
        retaken = [offered.object.key for offered, taken in pairs if offered.replaces and taken.outcome != "left"]
        once = WriteIdentity(context.pipeline.id, attempt.number)
        note_rejects(context.warehouse, context.pipeline, rejects, retaken, once, attempt.job_id)
        context.reach("ingest:rejects")
        context.ledger.settle(batch, attempt)
        context.reach("ingest:settled")
