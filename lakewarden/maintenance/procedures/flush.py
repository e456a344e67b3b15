"""Flush: moves pending rows from the log into the scopes' Delta tables."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from lakewarden.base.scope import Scope
from lakewarden.catalog.changes.engines import is_active
from lakewarden.catalog.model import Catalog
from lakewarden.catalog.operations import Request, Selection
from lakewarden.catalog.report import ScopeReport
from lakewarden.maintenance.compact.scope import CompactOptions
from lakewarden.maintenance.flush.plan import apply_flush, plan_flush
from lakewarden.maintenance.flush.run import flush_scopes
from lakewarden.maintenance.flush.selection import Only
from lakewarden.maintenance.maintain import maintain_targets
from lakewarden.maintenance.plans.value import Plan
from lakewarden.maintenance.procedures.procedure import ByScope
from lakewarden.maintenance.procedures.standing import apply_standing
from lakewarden.maintenance.procedures.workplace import Workplace
from lakewarden.maintenance.scopes import left_out, named_tables
from lakewarden.storage.paths import check_user
from lakewarden.tables.warehouse import Warehouse, check_scope, cold_tables


class Flush(ByScope):
    def look(self, at: Workplace, request: Request) -> list[ScopeReport]:
        catalog = at.warehouse.catalog.read()
        return plan_flush(at.warehouse, _wanted(catalog, request)) + _left_out(at.warehouse, catalog, request)

    def run(self, at: Workplace, request: Request, job_id: str | None = None) -> list[ScopeReport]:
        catalog = at.warehouse.catalog.read()
        flushed = _flush(at, _wanted(catalog, request), request.selection.parameters, job_id, catalog)
        return flushed + _left_out(at.warehouse, catalog, request)

    def apply(self, at: Workplace, plan: Plan, job_id: str) -> list[ScopeReport]:
        return apply_standing(
            at.warehouse, plan, lambda still: apply_flush(at.warehouse, at.run, at.flush_large, still.applying, job_id)
        )


def flush_exactly(at: Workplace, scopes: Collection[Scope]) -> list[ScopeReport]:
    """Flushes these scopes, in one job; skips those without pending rows, and tables whose engine is disabled."""
    catalog = at.warehouse.catalog.read()
    active = {scope for scope in scopes if is_active(catalog, scope.table)}
    named = {scope.table for scope in scopes}
    flushed = _flush(at, Only(active), {"scopes": str(len(scopes))}, catalog=catalog)
    return flushed + left_out(at.warehouse, catalog, "flush", [one for one in cold_tables(catalog) if one.name in named])


def flush_user(at: Workplace, user: str) -> list[ScopeReport]:
    """Flushes all that a user has pending, whatever the engines say: an export takes everything."""
    catalog = at.warehouse.catalog.read()
    scopes = [Scope(table.name, user) for table in cold_tables(catalog)]
    return _flush(at, Only(scopes), Selection(user=user).parameters, catalog=catalog)


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
    wanted: Callable[[Scope], bool],
    parameters: dict[str, str],
    job_id: str | None = None,
    catalog: Catalog | None = None,
) -> list[ScopeReport]:
    """`catalog` as in `flush_scopes`."""

    def work(id_: str) -> list[ScopeReport]:
        return flush_scopes(at.warehouse, at.run, at.flush_large, wanted, job_id=id_, catalog=catalog)

    reports = at.as_job("flush", parameters, work, job_id, rechecks=False)  # its watermark shows that it succeeded
    if at.warehouse.settings.flush.compact_after:
        reports += _compact_after(at, reports, parameters)
    return reports


def _compact_after(at: Workplace, flushed: Sequence[ScopeReport], parameters: dict[str, str]) -> list[ScopeReport]:
    """The optional compaction of the scopes that a flush wrote, outside its critical section."""
    warehouse = at.warehouse
    catalog = warehouse.catalog.read()
    written = [warehouse.target(catalog, report.scope) for report in flushed if report.outcome == "done"]
    options = CompactOptions(ratio=None)

    def work(id_: str) -> list[ScopeReport]:
        return maintain_targets(warehouse, at.run, written, options, dry_run=False, job_id=id_)

    return at.as_job("compact", parameters, work, None)


PROCEDURE = Flush()
