"""Before an ingest: that the ledger knows what its tables have, and that no repair left it uncertain.

A repair that could not bring back all rows of a pipeline's writes leaves its last number uncertain. Then the ledger says that
objects are taken whose rows may be gone. `repeat` makes everything unknown that is not certain, so that it is taken again in
place of what came back; `skip` lets it count as taken.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakewarden.catalog.model import Pipeline
from lakewarden.catalog.state.ledger import Ledger
from lakewarden.catalog.state.ledger_faults import faults_of
from lakewarden.errors import Corrupt
from lakewarden.log.once import Resume, stopped
from lakewarden.tables.direct.identities import Memories, memories_of
from lakewarden.tables.direct.run import resume_at
from lakewarden.tables.warehouse import Warehouse


@dataclass(frozen=True)
class Resuming:
    """The look of one ingest."""

    warehouse: Warehouse
    pipeline: Pipeline
    ledger: Ledger

    def check(self, how: Resume | None) -> None:
        """Raises:
        FailedPrecondition: a repair left uncertain what was taken, and nothing says how to go on.
        Corrupt: the ledger lacks something that its tables have.
        Conflict, StorageUnavailable: try again.
        """
        found = memories_of(self.warehouse, self.warehouse.catalog.read(), self.pipeline)
        if found.uncertain and how is None:
            one = found.uncertain[0]
            raise stopped(self.pipeline.id, one.table.name, one.last.number)
        faults = faults_of(self.ledger, found.landed)
        if faults:
            raise Corrupt(
                f"the ledger of {self.pipeline.table} lacks something: {faults.summary};"
                f" `lakewarden repair {self.pipeline.table}` goes on without it"
            )
        if found.uncertain and how is not None:
            self._resume(found, how)

    def _resume(self, found: Memories, how: Resume) -> None:
        """The tables last: until then it may be repeated."""
        view = self.ledger.look()
        certain = min(each.last_certain or 0 for each in found.uncertain) if how == "repeat" else view.settled
        if certain < view.next - 1:
            self.ledger.give_up(certain + 1, view.next - 1)
        settled = self.ledger.look().settled
        for each in found.uncertain:
            resume_at(self.warehouse, each.table, self.pipeline.id, how, settled or None)
