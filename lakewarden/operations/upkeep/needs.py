"""Which scopes an operation has to open, by what was noted of them: for one note, and for all of an object together."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

import numpy as np

from lakewarden.catalog.model import Table
from lakewarden.clock import to_millis
from lakewarden.operations.upkeep.rules import Rules
from lakewarden.operations.vacuum.removable import LOG_AGE
from lakewarden.operations.vacuum.retention import SAFE_HOURS, horizon_of
from lakewarden.operations.vacuum.scope import VacuumOptions
from lakewarden.specs import Operation
from lakewarden.state.floors.entries import NO_TABLE, UNSEEN
from lakewarden.state.floors.known_scopes import KnownScopes, Rows
from lakewarden.state.floors.objects import Summary
from lakewarden.warehouse import Warehouse


class Need(Protocol):
    """When an operation may find something to do. A scope that was not looked at is always opened."""

    def anywhere(self, summary: Summary) -> bool:
        """Whether it may for one of the scopes."""
        ...

    def rows(self, scopes: KnownScopes) -> Rows:
        """For which of the scopes."""
        ...


@dataclass(frozen=True)
class Unseen:
    """A check: those alone that were not looked at."""

    def anywhere(self, summary: Summary) -> bool:
        return summary.looked_at == UNSEEN

    def rows(self, scopes: KnownScopes) -> Rows:
        found: Rows = scopes["looked_at"] == UNSEEN
        return found


@dataclass(frozen=True)
class OtherRule:
    """Compact and optimize: unless nothing was to do by this rule, and no commit came since."""

    column: Literal["compacted", "optimized"]
    rule: int

    def anywhere(self, summary: Summary) -> bool:
        found = summary.compacted if self.column == "compacted" else summary.optimized
        return summary.looked_at == UNSEEN or found is None or not {self.rule, NO_TABLE}.issuperset(found)

    def rows(self, scopes: KnownScopes) -> Rows:
        found: Rows = (scopes["looked_at"] == UNSEEN) | ~np.isin(scopes[self.column], (self.rule, NO_TABLE))
        return found


@dataclass(frozen=True)
class OldRemains:
    """Vacuum: unless nothing is superfluous for so long. Milliseconds."""

    dead_before: int
    log_before: int

    @classmethod
    def before(cls, horizon: datetime, now: datetime) -> OldRemains:
        return cls(to_millis(horizon), to_millis(min(horizon, now - LOG_AGE)))

    def anywhere(self, summary: Summary) -> bool:
        return summary.looked_at == UNSEEN or summary.dead_since <= self.dead_before or summary.log_since <= self.log_before

    def rows(self, scopes: KnownScopes) -> Rows:
        dead, log = np.less_equal(scopes["dead_since"], self.dead_before), np.less_equal(scopes["log_since"], self.log_before)
        found: Rows = (scopes["looked_at"] == UNSEEN) | dead | log
        return found


def to_compact(warehouse: Warehouse, table: Table) -> Need:
    return OtherRule("compacted", Rules.of(warehouse.settings).compact(shared=table.type == "SHARED"))


def to_optimize(warehouse: Warehouse, table: Table) -> Need:
    """Without a Z-order, which opens each scope."""
    return OtherRule("optimized", Rules.of(warehouse.settings).optimize(warehouse.target_file_size(table)))


def to_vacuum(warehouse: Warehouse, table: Table, options: VacuumOptions) -> Need:
    now, hours = warehouse.clock(), options.retention(table.name, warehouse.retention_hours(table))
    return OldRemains.before(horizon_of(hours, now, options.latest), now)


def unattended(warehouse: Warehouse, table: Table) -> dict[Operation, Need]:
    """What maintenance does without being forced, and when it opens a scope."""
    needs: dict[Operation, Need] = {"compact": to_compact(warehouse, table), "optimize": to_optimize(warehouse, table)}
    if warehouse.retention_hours(table) >= SAFE_HOURS:
        needs["vacuum"] = to_vacuum(warehouse, table, VacuumOptions())
    return needs
