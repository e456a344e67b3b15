"""The plan of a flush: the scopes with rows in the log, and where the log ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from lakewarden.base.scope import Scope
from lakewarden.catalog.model import Catalog
from lakewarden.catalog.report import ScopePlan, ScopeReport
from lakewarden.maintenance.flush.due import Only, pending_wanted, users_wanted
from lakewarden.maintenance.flush.run import FlushJob, Upto, flush_scopes
from lakewarden.maintenance.plans.value import plan_of
from lakewarden.maintenance.workplace import Workplace
from lakewarden.tables.fanout import fault_of
from lakewarden.tables.warehouse import Warehouse, cold_tables


def plan_flush(warehouse: Warehouse, catalog: Catalog, wanted: Callable[[Scope], bool]) -> list[ScopeReport]:
    """One report for each scope that has rows, and one for a table whose log cannot be read. Opens no scope: the version is the
    floor's."""
    found = warehouse.logs.views(users_wanted(catalog, wanted))
    reports = []
    for table in cold_tables(catalog):
        if (fault := found.faults.get(table.log_id)) is not None:
            place, said = warehouse.location(catalog.storages[table.options.storage_id]), fault_of(fault)
            reports.append(ScopeReport(Scope(table.name), "flush", "failed", place, reason=said.message, fault=said))
        view = found.sound.get(table.log_id)
        if view is None:
            continue
        for rows in pending_wanted(table.name, view, wanted):
            scope = Scope(table.name, rows.user or None)
            target = warehouse.target_of(catalog, table, scope.user)
            report = ScopeReport(
                scope,
                "flush",
                "planned",
                target.location,
                reason=f"{rows.rows} rows in {rows.bytes} bytes of the log",
                version=None if target.known is None else target.known.version,
                metrics={"rows_pending": rows.rows, "bytes_pending": rows.bytes},
            )
            reports.append(replace(report, plan=plan_of(report, table.log_id, end=view.end)))
    return reports


def apply_flush(at: Workplace, planned: Sequence[ScopePlan], plan_id: str, job_id: str) -> list[ScopeReport]:
    """Flushes the planned rows; later ones stay in the log. Rows that were flushed since count as done."""
    if not planned:
        return []
    lines = {line.scope: line for line in planned}
    upto = Upto(plan_id, {line.log_id: line.end for line in planned if line.end is not None})
    run, large = at.engine.run, at.engine.flush_large
    flushed = flush_scopes(at.warehouse, run, large, Only(lines.keys()), job=FlushJob(job_id), upto=upto)
    made = {report.scope: report for report in flushed if report.outcome != "skipped"}
    unread = [report for report in flushed if report.fault and report.scope not in lines]
    now, before = at.warehouse.clock(), "its rows were already flushed"
    return [made.get(scope) or line.done("flush", now, before) for scope, line in lines.items()] + unread
