"""Repair: makes what damage has hidden readable again, scope by scope."""

from __future__ import annotations

from lakewarden.catalog.model import Catalog
from lakewarden.catalog.report import ScopeReport
from lakewarden.maintenance.plans.value import Plan
from lakewarden.maintenance.procedure import ByScope
from lakewarden.maintenance.repair import RepairOptions
from lakewarden.maintenance.repair.plan import apply_repair, as_reports
from lakewarden.maintenance.repair.report import RepairReport, outcome_of
from lakewarden.maintenance.repair.run import RepairRequest, repair
from lakewarden.maintenance.request import Request
from lakewarden.maintenance.workplace import Workplace


class Repair(ByScope):
    def look(self, at: Workplace, catalog: Catalog, request: Request) -> list[ScopeReport]:
        return as_reports(at.warehouse, damage(at, request))

    def run(self, at: Workplace, catalog: Catalog, request: Request, job_id: str | None = None) -> list[ScopeReport]:
        return as_reports(at.warehouse, repaired(at, request, job_id))

    def apply(self, at: Workplace, catalog: Catalog, plan: Plan, job_id: str) -> list[ScopeReport]:
        return apply_repair(at.warehouse, catalog, at.engine.run, plan, job_id)


def damage(at: Workplace, request: Request) -> list[RepairReport]:
    """What a repair would do; changes nothing."""
    return repair(at.warehouse, at.engine.run, _wanted(request, dry_run=True), at.new_job_id("repair"))


def repaired(at: Workplace, request: Request, job_id: str | None = None) -> list[RepairReport]:
    """Raises as `maintenance.repair.run.repair`."""
    started = at.warehouse.clock()
    own = job_id or at.new_job_id("repair")
    found = repair(at.warehouse, at.engine.run, _wanted(request, dry_run=False), own)
    if job_id is None and any(one.outcome in ("done", "failed") for one in found):
        parameters = request.scopes | {"restored": str(request.options_of(RepairOptions).restored)}
        at.jobs.keep("repair", own, started, parameters, *outcome_of(found))
    at.remember("repair", as_reports(at.warehouse, found))
    return found


def _wanted(request: Request, *, dry_run: bool) -> RepairRequest:
    return RepairRequest(request.tables, request.user, dry_run, request.options_of(RepairOptions).restored)


PROCEDURE = Repair()
