"""Which scopes an operation has to open, by what was noted of them: for one note, and for all of an object together."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

import numpy as np

from lakewarden.catalog.model import Table
from lakewarden.clock import to_millis
from lakewarden.operations.compact.scope import CompactOptions
from lakewarden.operations.optimize.scope import OptimizeOptions
from lakewarden.operations.restore.scope import RestoreOptions
from lakewarden.operations.upkeep.rules import Rules
from lakewarden.operations.vacuum.scope import LOG_AGE, SAFE_HOURS, VacuumOptions, horizon_of, retention_of
from lakewarden.report import Operation
from lakewarden.state.floors.entries import NO_TABLE, UNSEEN
from lakewarden.state.floors.known_scopes import KnownScopes, Rows
from lakewarden.state.floors.objects import Summary
from lakewarden.warehouse import Warehouse

_Options = CompactOptions | OptimizeOptions | VacuumOptions | RestoreOptions


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


def need_of(warehouse: Warehouse, table: Table, options: _Options) -> Need | None:
    """When the operation opens a scope; None where it opens all."""
    settings = warehouse.settings
    match options:
        case CompactOptions():
            return OtherRule("compacted", Rules(options, settings.maintenance.min_gain).compact(shared=table.type == "SHARED"))
        case OptimizeOptions(zorder=()):
            rules = Rules(CompactOptions.of(settings.compaction), options.min_gain)
            return OtherRule("optimized", rules.optimize(warehouse.target_file_size(table)))
        case VacuumOptions():
            now, hours = warehouse.clock(), retention_of(table.name, warehouse.retention_hours(table), options)
            return OldRemains.before(horizon_of(options, hours, now), now)
        case _:
            return None


def unattended(warehouse: Warehouse, table: Table) -> dict[Operation, Need]:
    """What maintenance does without being forced, and when it opens a scope."""
    settings = warehouse.settings
    options: dict[Operation, _Options] = {
        "compact": CompactOptions.of(settings.compaction),
        "optimize": OptimizeOptions((), settings.maintenance.min_gain),
    }
    if warehouse.retention_hours(table) >= SAFE_HOURS:
        options["vacuum"] = VacuumOptions()
    needs = ((operation, need_of(warehouse, table, each)) for operation, each in options.items())
    return {operation: need for operation, need in needs if need is not None}
