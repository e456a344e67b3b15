"""Vacuum: deletes files that no version inside the retention needs, and what else of the warehouse's state is too old."""

from __future__ import annotations

from datetime import timedelta

from lakewarden.catalog.model import Table
from lakewarden.catalog.operations import Request
from lakewarden.catalog.report import ScopeReport
from lakewarden.catalog.state.audit import AuditLog
from lakewarden.maintenance.flush.run import forget_expired
from lakewarden.maintenance.plans.store import PlanLog
from lakewarden.maintenance.procedures.maintenance import TableMaintenance
from lakewarden.maintenance.procedures.workplace import Workplace
from lakewarden.maintenance.sweep import SweepResult, sweep
from lakewarden.maintenance.upkeep.needs import Need, to_vacuum
from lakewarden.maintenance.upkeep.rounds import Round
from lakewarden.maintenance.vacuum.scope import VacuumOptions
from lakewarden.tables.warehouse import Warehouse


class VacuumProcedure(TableMaintenance):
    def options(self, warehouse: Warehouse, request: Request) -> VacuumOptions:
        return VacuumOptions(request.retain_hours, request.force, request.ignore_checks)

    def need(self, warehouse: Warehouse, request: Request, table: Table) -> Need:
        return to_vacuum(warehouse, table, self.options(warehouse, request))

    def going_round(self, warehouse: Warehouse, table: Table) -> Round:
        return Round.of(warehouse, table)

    def run(self, at: Workplace, request: Request, job_id: str | None = None) -> list[ScopeReport]:
        reports = super().run(at, request, job_id)
        warehouse = at.warehouse
        forget_expired(warehouse, warehouse.catalog.read(), warehouse.logs.views({}).sound)
        _sweep(at)
        _expire(at)
        return reports


def _sweep(at: Workplace) -> None:
    """Fences belong to no scope that a report could name, so the job log records what was removed."""
    started = at.warehouse.clock()
    own = at.new_job_id("vacuum")
    swept = sweep(at.warehouse, own)
    if swept != SweepResult():
        said = f"removed {swept.fences} fences and {swept.seals} seals of erased users and dropped tables"
        why = f"; {len(swept.failed)} failed: {swept.failed[0]}" if swept.failed else ""
        at.jobs.keep("vacuum", own, started, {"of": "fences"}, "failed" if why else "completed", said + why)


def _expire(at: Workplace) -> None:
    """What is removed from the job log and the audit log is recorded too."""
    warehouse, kept = at.warehouse, at.warehouse.settings.maintenance
    started = warehouse.clock()
    jobs = at.jobs.expire(started - timedelta(days=kept.job_retention_days))
    audit = AuditLog(warehouse.state, warehouse.clock, warehouse.new_id)
    acts = audit.expire(started - timedelta(days=kept.audit_retention_days)) if kept.audit_retention_days else 0
    plans = PlanLog(warehouse.state, warehouse.erasures).expire(started)
    if jobs or acts or plans:
        more = f" and {plans} plans" if plans else ""
        said = f"removed {jobs} jobs and {acts} entries of the audit log{more}, which were too old"
        at.jobs.keep("vacuum", at.new_job_id("vacuum"), started, {"of": "logs"}, "completed", said)


PROCEDURE = VacuumProcedure()
