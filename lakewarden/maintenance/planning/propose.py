"""Proposals: the work that is due now, as reports of operations that have not run."""

from __future__ import annotations

from collections.abc import Iterable

from lakewarden.catalog.model import Catalog, Table
from lakewarden.catalog.report import ScopeReport
from lakewarden.maintenance.planning.pending import DueScope
from lakewarden.maintenance.vacuum.retention import SAFE_HOURS
from lakewarden.tables.warehouse import Warehouse


def planned_flush(warehouse: Warehouse, catalog: Catalog, due: DueScope) -> ScopeReport:
    """The flush that a scope's policy calls for."""
    target = warehouse.target(catalog, due.pending.scope)
    metrics = {"rows_pending": due.pending.rows, "bytes_pending": due.pending.bytes}
    return ScopeReport(due.pending.scope, "flush", "planned", target.location, reason=due.reason, metrics=metrics)


def vacuumable(warehouse: Warehouse, tables: Iterable[Table]) -> list[str]:
    """Those that a vacuum may run on unattended: a shorter retention has to be forced by an operator each time."""
    return [str(table.name) for table in tables if warehouse.retention_hours(table) >= SAFE_HOURS]
