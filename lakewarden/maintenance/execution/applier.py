"""The applier: does exactly what was planned, scope by scope, where nothing has moved since."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from lakewarden.catalog.operations import Request, Selection
from lakewarden.catalog.report import ScopeReport
from lakewarden.errors import InvalidArgument, Moved, NotFound
from lakewarden.maintenance.execution.operator import Operator
from lakewarden.maintenance.plans.still_planned import PLAN
from lakewarden.maintenance.plans.store import DoneBy, PlanLog
from lakewarden.maintenance.plans.value import MAX_SCOPES, Plan
from lakewarden.maintenance.procedures.erase import erased_before
from lakewarden.maintenance.procedures.procedure import AsAWhole, ByScope, procedure_of
from lakewarden.tables.warehouse import Warehouse

Permit = Callable[[Request], None]
"""Raises where the session that applies the plan may not run its operation."""


@dataclass(frozen=True)
class Applier:
    """Applies the plans that one warehouse keeps."""

    operator: Operator

    def apply(self, given: Plan | str, permit: Permit) -> list[ScopeReport]:
        """Applies a plan by its id or from its file; reports each scope as `done`, or `failed` where it moved.

        Raises:
            InvalidArgument, NotFound: it is not a plan of this warehouse.
            Moved: the plan is too old.
            PermissionDenied: as `permit`.
        """
        plan_id = given if isinstance(given, str) else given.plan_id
        if isinstance(given, Plan):
            self._check_given(given)
        found = self._log.begin(plan_id, self._warehouse.clock())
        if (kept := found.plan) is None:
            permit(Request("erase"))  # nothing else removes a plan and leaves what it did
            if found.done is None:
                raise NotFound(f"plan {plan_id} was removed with the user whom it named; if that erasure failed, erase again")
            return [replace(report, plan_id=plan_id) for report in erased_before(self._warehouse, found.done)]
        permit(kept.request)
        plan, refused = (kept, []) if isinstance(given, str) else self._as_kept(given, kept)
        procedure = procedure_of(plan.operation)
        if isinstance(procedure, AsAWhole):
            reports = refused or self._as_a_whole(procedure, kept, found.done)
        else:
            reports = self._by_scope(procedure, plan) + refused
        return [replace(report, plan_id=plan_id) for report in reports]

    def _by_scope(self, procedure: ByScope, plan: Plan) -> list[ScopeReport]:
        at = self.operator.workplace
        selection = Selection(plan.request.tables, plan.request.user).parameters | {PLAN: plan.plan_id}
        return at.as_job(plan.operation, selection, lambda job_id: procedure.apply(at, plan, job_id), None)

    def _as_a_whole(self, procedure: AsAWhole, plan: Plan, before: DoneBy | None) -> list[ScopeReport]:
        """Does all that was planned, or nothing. What an earlier apply did is reported."""
        now = self._warehouse.clock()
        if before is not None:
            return [line.done(plan.operation, now, before.message) for line in plan.scopes]
        try:
            done = procedure.apply(self.operator.workplace, plan)
        except Moved as moved:
            return [line.failed(plan.operation, moved, now) for line in plan.scopes]
        self._log.finish(plan.plan_id, done)
        return [line.done(plan.operation, now, done.message) for line in plan.scopes]

    def _check_given(self, given: Plan) -> None:
        if given.warehouse != self._warehouse.id:
            raise InvalidArgument(
                f"plan {given.plan_id} was made for warehouse {given.warehouse}, and this is {self._warehouse.id}: apply it there"
            )
        if len(given.scopes) > MAX_SCOPES:
            raise InvalidArgument(f"plan {given.plan_id} has {len(given.scopes)} scopes; a plan has at most {MAX_SCOPES}")

    def _as_kept(self, given: Plan, kept: Plan) -> tuple[Plan, list[ScopeReport]]:
        """The lines of the given plan that match the stored one, and reports of those that do not.

        Raises:
            InvalidArgument: it is not the plan of that id.
        """
        if (given.request, given.planned_at) != (kept.request, kept.planned_at):
            raise InvalidArgument(f"plan {kept.plan_id} requests something other than what this warehouse planned; plan again")
        lines = {line.key: line for line in kept.scopes}
        same = tuple({line.key: line for line in given.scopes if lines.get(line.key) == line}.values())
        other = [line for line in given.scopes if lines.get(line.key) != line]
        why = "is not in the warehouse's copy of the plan: the file was changed, or the user was erased; plan again"
        now = self._warehouse.clock()
        refused = [line.failed(kept.operation, Moved(f"{line.scope} {why}"), now) for line in other]
        return replace(kept, scopes=same), refused

    @property
    def _warehouse(self) -> Warehouse:
        return self.operator.warehouse

    @property
    def _log(self) -> PlanLog:
        return PlanLog(self._warehouse.state, self._warehouse.erasures)
