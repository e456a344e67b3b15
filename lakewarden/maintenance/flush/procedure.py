"""Flush: moves pending rows from the log into the scopes' Delta tables."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from lakewarden.base.scope import Scope
from lakewarden.catalog.changes.engines import is_active
from lakewarden.catalog.model import Catalog
from lakewarden.catalog.report import ScopePlan, ScopeReport
from lakewarden.catalog.target import check_scope
from lakewarden.maintenance.compact import CompactOptions
from lakewarden.maintenance.compact.procedure import PROCEDURE as COMPACT
from lakewarden.maintenance.flush.due import Only, plan_flush
from lakewarden.maintenance.flush.run import FlushJob, flush_scopes
from lakewarden.maintenance.maintain import MaintenanceRun, maintain_targets
from lakewarden.maintenance.plans.still_planned import standing
from lakewarden.maintenance.plans.value import Plan
from lakewarden.maintenance.procedure import ByScope
from lakewarden.maintenance.request import Request, new_request
from lakewarden.maintenance.scopes import left_out, named_tables
from lakewarden.maintenance.workplace import Workplace
from lakewarden.storage.paths import check_user
from lakewarden.tables.warehouse import Warehouse, cold_tables


class Flush(ByScope):
    def look(self, at: Workplace, catalog: Catalog, request: Request) -> list[ScopeReport]:
        return plan_flush(at.warehouse, catalog, _wanted(catalog, request)) + _left_out(at.warehouse, catalog, request)

    def run(self, at: Workplace, catalog: Catalog, request: Request, job_id: str | None = None) -> list[ScopeReport]:
        flushed = _flush(at, catalog, _wanted(catalog, request), request.scopes, job_id)
        return flushed + _left_out(at.warehouse, catalog, request)

    def apply(self, at: Workplace, catalog: Catalog, plan: Plan, job_id: str) -> list[ScopeReport]:
        still = standing(at.warehouse, catalog, plan)
        ends = {line.log_id: line.end for line in still.lines if line.end is not None}
        return _apply(at, still.lines, FlushJob(job_id, catalog, plan.plan_id, ends)) + still.refused


def flush_exactly(at: Workplace, scopes: Collection[Scope]) -> list[ScopeReport]:
    """Flushes these scopes, in one job; skips those without pending rows, and tables whose engine is disabled."""
    catalog = at.warehouse.catalog.read()
    active = {scope for scope in scopes if is_active(catalog, scope.table)}
    named = {scope.table for scope in scopes}
    flushed = _flush(at, catalog, Only(active), {"scopes": str(len(scopes))})
    return flushed + left_out(at.warehouse, catalog, "flush", [one for one in cold_tables(catalog) if one.name in named])


def flush_user(at: Workplace, user: str) -> list[ScopeReport]:
    """Flushes all that a user has pending, whatever the engines say: an export takes everything."""
    catalog = at.warehouse.catalog.read()
    scopes = [Scope(table.name, user) for table in cold_tables(catalog)]
    return _flush(at, catalog, Only(scopes), new_request("flush", (), user=user).scopes)


def _left_out(warehouse: Warehouse, catalog: Catalog, request: Request) -> list[ScopeReport]:
    return [] if request.tables else left_out(warehouse, catalog, request.operation, cold_tables(catalog))


def _wanted(catalog: Catalog, request: Request) -> Callable[[Scope], bool]:
    """Which scopes a flush covers.

    Raises:
        NotFound: a table does not exist.
        FailedPrecondition: the engine of a named table is disabled.
        InvalidArgument: an impossible user, or one for a SHARED table that was named.
    """
    tables = named_tables(catalog, request.tables)
    if request.user is not None:
        check_user(request.user)
        for table in tables if request.tables else ():
            check_scope(table, Scope(table.name, request.user))
    names = {table.name for table in tables}
    if request.user is not None:
        return Only([Scope(name, request.user) for name in names])
    return lambda scope: scope.table in names


def _flush(
    at: Workplace,
    catalog: Catalog,
    wanted: Callable[[Scope], bool],
    parameters: dict[str, str],
    job_id: str | None = None,
) -> list[ScopeReport]:
    """`catalog` was just read."""

    def work(id_: str) -> list[ScopeReport]:
        return flush_scopes(at.warehouse, at.engine.run, at.engine.flush_large, wanted, job=FlushJob(id_, catalog))

    reports = at.as_job("flush", parameters, work, job_id, rechecks=False)  # its watermark shows that it succeeded
    if at.warehouse.settings.flush.compact_after:
        reports += _compact_after(at, reports, parameters)
    return reports


def _apply(at: Workplace, planned: Sequence[ScopePlan], job: FlushJob) -> list[ScopeReport]:
    """Flushes the planned rows; later ones stay in the log. Rows that were flushed since count as done."""
    if not planned:
        return []
    lines = {line.scope: line for line in planned}
    flushed = flush_scopes(at.warehouse, at.engine.run, at.engine.flush_large, Only(lines.keys()), job=job)
    made = {report.scope: report for report in flushed if report.outcome != "skipped"}
    unread = [report for report in flushed if report.fault and report.scope not in lines]
    now, before = at.warehouse.clock(), "its rows were already flushed"
    return [made.get(scope) or line.done("flush", now, before) for scope, line in lines.items()] + unread


def _compact_after(at: Workplace, flushed: Sequence[ScopeReport], parameters: dict[str, str]) -> list[ScopeReport]:
    """The optional compaction of the scopes that a flush wrote, outside its critical section."""
    catalog = at.warehouse.catalog.read()
    written = [at.warehouse.target(catalog, report.scope) for report in flushed if report.outcome == "done"]
    options = CompactOptions(scheduled=True)
    return at.as_job(
        "compact",
        parameters,
        lambda id_: maintain_targets(at, catalog, MaintenanceRun(COMPACT, options, id_), written),
        None,
    )


PROCEDURE = Flush()
