"""Vacuum: deletes files that no version inside the retention needs, and what else of the warehouse's state is too old."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from lakewarden.base.scope import Scope, TableName
from lakewarden.catalog.model import Catalog, Table, TableSchema
from lakewarden.catalog.operations import SPECS
from lakewarden.catalog.report import ScopeReport
from lakewarden.catalog.state.audit import AuditLog
from lakewarden.catalog.state.failed_checks import NO_FILE_MENDS, UNREADABLE
from lakewarden.catalog.state.failed_checks import StandingFailure as Failure
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.timeline import VACUUM_END
from lakewarden.errors import FailedCheck, LakewardenError
from lakewarden.maintenance.flush.run import forget_expired
from lakewarden.maintenance.maintain import TableMaintenance
from lakewarden.maintenance.plans.rounds import Round
from lakewarden.maintenance.plans.store import PlanLog
from lakewarden.maintenance.request import Request
from lakewarden.maintenance.vacuum import VacuumOptions
from lakewarden.maintenance.vacuum.need import OldRemains, to_vacuum
from lakewarden.maintenance.vacuum.removable import retention
from lakewarden.maintenance.vacuum.scope import plan_vacuum, replan_vacuum
from lakewarden.maintenance.vacuum.sweep import SweepResult, sweep
from lakewarden.maintenance.vacuum.unreferenced_files import hot_files
from lakewarden.maintenance.workplace import Workplace
from lakewarden.tables import pins
from lakewarden.tables.pins import tagged_versions
from lakewarden.tables.warehouse import Warehouse, find_table


def _error(scope: Scope, failures: Sequence[Failure]) -> FailedCheck:
    newest = max(failures, key=lambda failure: (failure.version, failure.at))
    more = f" and {len(failures) - 1} more" if len(failures) > 1 else ""
    which = "" if newest.version == UNREADABLE else f" in version {newest.version}"
    return FailedCheck(
        f"{scope} failed the check {newest.check}{which} at {newest.at:%Y-%m-%d %H:%M} UTC{more}: a vacuum"
        " may delete the files that mend it; mend it and check it again, or vacuum with --ignore-checks"
    )


class VacuumProcedure(TableMaintenance[VacuumOptions]):
    operation = "vacuum"
    commits = VACUUM_END
    takes = VacuumOptions

    plan = staticmethod(plan_vacuum)
    replan = staticmethod(replan_vacuum)

    def check(self, options: VacuumOptions, subject: Scope | TableName, schema: TableSchema, retention_hours: float) -> None:
        retention(options, subject, retention_hours)

    def refused(self, at: Workplace, options: VacuumOptions, targets: Sequence[ScopeTarget]) -> Mapping[Scope, LakewardenError]:
        """Those that failed a check: what a vacuum would delete may be the only good files. One listing for each table."""
        if options.ignore_checks:
            return {}
        warehouse, catalog = at.warehouse, at.warehouse.catalog.read()
        failed = {
            name: warehouse.failed_checks.of(find_table(catalog, name).id) for name in {target.scope.table for target in targets}
        }
        marks = ((target.scope, target.mark or warehouse.erasures.mark(target.scope.user or "")) for target in targets)
        found = ((scope, failed[scope.table].get(mark, ())) for scope, mark in marks)
        # Failed operations stand among the checks; they say nothing of which files are good.
        of_checks = ((scope, [one for one in failures if one.check not in {*SPECS, *NO_FILE_MENDS}]) for scope, failures in found)
        return {scope: _error(scope, failures) for scope, failures in of_checks if failures}

    def completed(
        self, at: Workplace, catalog: Catalog, options: VacuumOptions, targets: Sequence[ScopeTarget], now: datetime
    ) -> Sequence[VacuumOptions]:
        """With what tags name, readers pin, and hot rows refer to. Versions pinned since `now` are inside the retention."""
        warehouse = at.warehouse
        tables = {name: find_table(catalog, name) for name in {target.scope.table for target in targets}}
        tagged = {name: tagged_versions(warehouse.state, table.id) for name, table in tables.items()}
        pinned = {name: pins.pinned_versions(warehouse.state, table.id, now) for name, table in tables.items()}
        hot = {name: hot_files(warehouse.log(table), table) for name, table in tables.items()}
        return [
            replace(
                options,
                keep_versions=(*options.keep_versions, *_of(tagged, target.scope), *_of(pinned, target.scope)),
                keep_files=hot[target.scope.table].get(target.scope.user, frozenset()),
            )
            for target in targets
        ]

    def finish(self, at: Workplace, catalog: Catalog, targets: Sequence[ScopeTarget], now: datetime) -> None:
        for name in {target.scope.table for target in targets}:
            pins.forget_expired(at.warehouse.state, find_table(catalog, name).id, now)

    def need(self, warehouse: Warehouse, table: Table, options: VacuumOptions) -> OldRemains:
        return to_vacuum(warehouse, table, options)

    def going_round(self, warehouse: Warehouse, table: Table) -> Round:
        return Round.of(warehouse, table)

    def run(self, at: Workplace, catalog: Catalog, request: Request, job_id: str | None = None) -> list[ScopeReport]:
        reports = super().run(at, catalog, request, job_id)
        forget_expired(at.warehouse, catalog, at.warehouse.logs.views({}).sound)
        _sweep(at)
        _expire(at)
        return reports


def _of(kept: Mapping[TableName, Mapping[str | None, tuple[int, ...]]], scope: Scope) -> tuple[int, ...]:
    return kept[scope.table].get(scope.user, ())


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
