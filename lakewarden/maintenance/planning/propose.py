"""Proposals: the work that is due now, as reports of operations that have not run."""

from __future__ import annotations

from collections.abc import Collection

from lakewarden.base.scope import TableName
from lakewarden.catalog.report import ScopeReport
from lakewarden.maintenance.planning.pending import DueScope
from lakewarden.maintenance.vacuum.retention import SAFE_HOURS
from lakewarden.tables.warehouse import Warehouse, live_tables


def planned_flush(warehouse: Warehouse, due: DueScope) -> ScopeReport:
    """The flush that a scope's policy calls for."""
    target = warehouse.target(warehouse.catalog.read(), due.pending.scope)
    metrics = {"rows_pending": due.pending.rows, "bytes_pending": due.pending.bytes}
    return ScopeReport(due.pending.scope, "flush", "planned", target.location, reason=due.reason, metrics=metrics)


def vacuumable(warehouse: Warehouse, names: Collection[TableName]) -> list[str]:
    """The tables that a vacuum may run on unattended: a shorter retention has to be forced by an operator each time."""
    retention = {table.name: warehouse.retention_hours(table) for table in live_tables(warehouse.catalog.read())}
    return [str(name) for name in names if retention[name] >= SAFE_HOURS]
