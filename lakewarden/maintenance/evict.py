"""Evict: removes expired rows of STREAM tables from the log, whole segments at once and without reading them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lakewarden.base.connection import Location
from lakewarden.base.quantities import grouped
from lakewarden.base.scope import Scope, TableName
from lakewarden.catalog.changes.engines import is_active, require_active
from lakewarden.catalog.model import Catalog, Table
from lakewarden.catalog.report import ScopePlan, ScopeReport
from lakewarden.errors import Unsupported
from lakewarden.log.stream import ExpiredRows, to_evict
from lakewarden.maintenance.plans.still_planned import standing
from lakewarden.maintenance.plans.value import Plan, plan_of
from lakewarden.maintenance.procedure import ByScope
from lakewarden.maintenance.request import Request
from lakewarden.maintenance.scopes import left_out
from lakewarden.maintenance.workplace import Workplace
from lakewarden.tables.warehouse import Warehouse, find_table, live_tables


class Evict(ByScope):
    """Raises, beside what every procedure does:
    Unsupported: a name is not a STREAM table's.
    """

    def look(self, at: Workplace, catalog: Catalog, request: Request) -> list[ScopeReport]:
        return _evicted(at.warehouse, catalog, request, None)

    def run(self, at: Workplace, catalog: Catalog, request: Request, job_id: str | None = None) -> list[ScopeReport]:
        return at.as_job("evict", request.scopes, lambda id_: _evicted(at.warehouse, catalog, request, id_), job_id)

    def apply(self, at: Workplace, catalog: Catalog, plan: Plan, job_id: str) -> list[ScopeReport]:
        still = standing(at.warehouse, catalog, plan, in_log=True)
        return _apply(at.warehouse, catalog, still.lines) + still.refused

    def check_queued(self, at: Workplace, catalog: Catalog, request: Request) -> None:
        self.look(at, catalog, request)


def _evicted(warehouse: Warehouse, catalog: Catalog, request: Request, job_id: str | None) -> list[ScopeReport]:
    """One report for each scope with something to evict; nothing is evicted without a job."""
    tables = _streams(catalog, request.tables)
    reports = [report for table in tables for report in _evict(warehouse, table, request.user, job_id)]
    return reports + (left_out(warehouse, catalog, "evict", _all_streams(catalog)) if not request.tables else [])


def _streams(catalog: Catalog, names: Sequence[str]) -> list[Table]:
    found = [find_table(catalog, TableName.parse(name)) for name in names]
    for table in found:
        if table.type != "STREAM":
            raise Unsupported(f"{table.name} is a {table.type} table, whose rows never expire; STREAM tables are evicted")
        require_active(catalog, table.name.namespace)
    return found if names else [table for table in _all_streams(catalog) if is_active(catalog, table.name)]


def _all_streams(catalog: Catalog) -> list[Table]:
    return [table for table in live_tables(catalog) if table.type == "STREAM"]


def _evict(warehouse: Warehouse, table: Table, user: str | None, job_id: str | None) -> list[ScopeReport]:
    log = warehouse.log(table)
    view = log.view(None if user is None else (user,))
    now = warehouse.clock()
    wanted = (view.pending if user is None else view.pending_of((user,))).values()
    gone = [expired for pending in wanted if (expired := to_evict(pending, table.options, now))]
    if gone and job_id is not None:
        log.settle(view, {each.user: each.end for each in gone}, keep=False)  # subscribers do not need expired rows either
    return [_report(warehouse, table, each, job_id) for each in gone]


def _report(warehouse: Warehouse, table: Table, gone: ExpiredRows, job_id: str | None) -> ScopeReport:
    report = ScopeReport(
        Scope(table.name, gone.user),
        "evict",
        "done" if job_id else "planned",
        Location(warehouse.state.uri).below(warehouse.log(table).home),
        reason="" if job_id else f"{table.options.eviction_strategy}: {gone.rows} rows can be removed",
        parameters={"job_id": job_id} if job_id else {},
        metrics={"rows_evicted": gone.rows, "bytes_evicted": gone.bytes},
        finished_at=warehouse.clock(),
    )
    return report if job_id else replace(report, plan=plan_of(report, table.log_id, end=gone.end))


def _apply(warehouse: Warehouse, catalog: Catalog, lines: Sequence[ScopePlan]) -> list[ScopeReport]:
    """Evicts the planned rows, and none after them. Rows that are already gone count as done."""
    for name, planned in grouped(lines, lambda line: line.scope.table).items():
        log = warehouse.log(find_table(catalog, name))
        ends = {line.user or "": line.end for line in planned if line.end is not None}
        view = log.view(ends.keys())
        marks = {user: ends[user] for user, rows in view.pending_of(ends.keys()).items() if rows.first_seq <= ends[user]}
        if marks:
            log.settle(view, marks, keep=False)
    return [line.done("evict", warehouse.clock()) for line in lines]


PROCEDURE = Evict()
