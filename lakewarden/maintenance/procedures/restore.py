"""Restore: brings scopes back to an earlier version, after their pending rows were flushed or dropped."""

from __future__ import annotations

from lakewarden.base.scope import TableName
from lakewarden.catalog.operations import Request
from lakewarden.catalog.report import ScopeReport
from lakewarden.maintenance.plans.value import Plan
from lakewarden.maintenance.procedures.procedure import ByScope
from lakewarden.maintenance.procedures.standing import PlanStanding, apply_standing
from lakewarden.maintenance.procedures.workplace import Workplace
from lakewarden.maintenance.restore.scope import restore_options
from lakewarden.maintenance.rewind import Rewind, apply_rewind, rewind
from lakewarden.tables.warehouse import find_table


class RestoreProcedure(ByScope):
    def look(self, at: Workplace, request: Request) -> list[ScopeReport]:
        return _run(at, request, None, dry_run=True)

    def run(self, at: Workplace, request: Request, job_id: str | None = None) -> list[ScopeReport]:
        return _run(at, request, job_id, dry_run=False)

    def apply(self, at: Workplace, plan: Plan, job_id: str) -> list[ScopeReport]:
        wanted = _rewind(at, plan.request, job_id, dry_run=False)

        def apply(still: PlanStanding) -> list[ScopeReport]:
            return apply_rewind(at.warehouse, at.run, at.flush_large, wanted, still.targets, still.applying)

        return apply_standing(at.warehouse, plan, apply)


def _run(at: Workplace, request: Request, job_id: str | None, *, dry_run: bool) -> list[ScopeReport]:
    options = _rewind(at, request, "", dry_run=dry_run).options  # refused before there is a job
    target = {"version": str(options.version)} if options.timestamp is None else {"timestamp": options.timestamp.isoformat()}

    def work(id_: str) -> list[ScopeReport]:
        return rewind(at.warehouse, at.run, at.flush_large, _rewind(at, request, id_, dry_run=dry_run))

    return at.as_job("restore", request.selection.parameters | target, work, job_id, keep=not dry_run)


def _rewind(at: Workplace, request: Request, job_id: str, *, dry_run: bool) -> Rewind:
    """Raises:
    NotFound, InvalidArgument: the table does not exist; or the request names no version, or one version for every user.
    """
    name = TableName.parse(request.tables[0])
    table = find_table(at.warehouse.catalog.read(), name)
    options = restore_options(table, request.user, request.version, request.timestamp)
    return Rewind(name, request.user, options, request.discard_pending, dry_run, job_id)


PROCEDURE = RestoreProcedure()
