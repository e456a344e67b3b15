"""Which scopes a vacuum has to open, by what was noted of them; and all that maintenance does without being forced."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import numpy as np

from lakewarden.base.clock import to_millis
from lakewarden.catalog.model import Table
from lakewarden.catalog.operations import Operation
from lakewarden.catalog.state.floor_entries import UNSEEN, KnownScopes, Rows
from lakewarden.catalog.state.floor_objects import Summary
from lakewarden.maintenance.plans.select import Need, to_compact, to_optimize
from lakewarden.maintenance.vacuum import VacuumOptions
from lakewarden.maintenance.vacuum.removable import LOG_AGE, horizon_of, retention, vacuumable
from lakewarden.tables.warehouse import Warehouse


@dataclass(frozen=True)
class OldRemains(Need):
    """Vacuum: unless nothing is superfluous for so long. Milliseconds."""

    dead_before: int
    log_before: int

    @classmethod
    def before(cls, horizon: datetime, now: datetime) -> OldRemains:
        # The log stays for thirty days at least, whatever the retention of files.
        return cls(to_millis(horizon), to_millis(min(horizon, now - LOG_AGE)))

    def anywhere(self, summary: Summary) -> bool:
        return summary.looked_at == UNSEEN or summary.dead_since <= self.dead_before or summary.log_since <= self.log_before

    def rows(self, scopes: KnownScopes) -> Rows:
        dead, log = np.less_equal(scopes["dead_since"], self.dead_before), np.less_equal(scopes["log_since"], self.log_before)
        found: Rows = (scopes["looked_at"] == UNSEEN) | dead | log
        return found


def to_vacuum(warehouse: Warehouse, table: Table, options: VacuumOptions) -> OldRemains:
    now, hours = warehouse.clock(), retention(options, table.name, warehouse.retention_hours(table))
    return OldRemains.before(horizon_of(hours, now, options.latest), now)


def unattended(warehouse: Warehouse, table: Table) -> dict[Operation, Need]:
    """What maintenance does without being forced, and when it opens a scope."""
    needs: dict[Operation, Need] = {"compact": to_compact(warehouse, table), "optimize": to_optimize(warehouse, table)}
    if vacuumable(warehouse, [table]):
        needs["vacuum"] = to_vacuum(warehouse, table, VacuumOptions())
    return needs
