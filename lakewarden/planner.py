"""The planner: makes plans and keeps them; applies exactly what was planned, where it still stands."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from lakewarden.catalog.model import Catalog
from lakewarden.clock import to_millis
from lakewarden.connection import Location
from lakewarden.errors import InvalidArgument, LakewardenError, Moved, NotFound
from lakewarden.operations.evict import apply_evict
from lakewarden.operations.maintain import maintain_targets, options_of
from lakewarden.operations.plans.flushes import apply_flush, plan_flush
from lakewarden.operations.plans.moved import PLAN
from lakewarden.operations.plans.store import PlanLog
from lakewarden.operations.plans.value import MAX_SCOPES, Applying, Plan, PlannedScope
from lakewarden.operations.request import Asked, Request
from lakewarden.operations.restore import RestoreOptions
from lakewarden.operations.rewind import Rewind, apply_rewind
from lakewarden.operations.scopes import named_tables
from lakewarden.operations.specs import check_request
from lakewarden.operator import Operator
from lakewarden.planning.propose import vacuumable
from lakewarden.report import ScopeReport, ScopeTarget
from lakewarden.scope import Scope, TableName
from lakewarden.warehouse import Warehouse, find_table

Permit = Callable[[Request], None]
"""Raises where the session that applies may not do what was requested."""


@dataclass(frozen=True)
class Preview:
    """A plan, and the report of each scope, those with nothing to do among them."""

    plan: Plan
    reports: list[ScopeReport]


@dataclass(frozen=True)
class Planner:
    """The plans of one warehouse."""

    operator: Operator

    def preview(self, request: Request) -> Preview:
        """Plans, and keeps the plan.

        Raises:
            InvalidArgument, Unsupported, NotFound: it cannot be requested so, or is too long for a plan.
        """
        planned_at = self._warehouse.clock()
        return self._kept(request, self.look(request), planned_at)

    def look(self, request: Request) -> list[ScopeReport]:
        """What a plan would say, without one.

        Raises as `preview`.
        """
        check_request(request)
        asked = Asked(request.tables, request.user)
        match request.operation:
            case "flush":
                names = {table.name for table in named_tables(self._warehouse.catalog.read(), request.tables)}
                return plan_flush(self._warehouse, lambda scope: scope.table in names and request.user in (None, scope.user))
            case "evict":
                return self.operator.evict(asked, dry_run=True)
            case "restore":
                return self.operator.restore(*self._restore(request), discard=request.discard_pending, dry_run=True)
            case _:
                return self.operator.maintain(asked, options_of(request, self._warehouse), dry_run=True)

    def due(self, tables: Sequence[str], due: Collection[Scope]) -> list[Plan]:
        """What maintenance would do now, a plan for each operation, in the order in which they are to be applied.

        A scope that is compacted is not optimized by the same plans: the second would find its files replaced.
        """
        warehouse, planned_at = self._warehouse, self._warehouse.clock()
        names = {table.name for table in named_tables(warehouse.catalog.read(), tables)}
        flush = plan_flush(warehouse, lambda scope: scope in due and scope.table in names)
        compact, optimize = (self.look(Request(operation, tuple(tables))) for operation in ("compact", "optimize"))
        folded = {report.scope for report in compact if report.outcome == "planned"}
        safe = tuple(vacuumable(warehouse, names))
        vacuum = self.look(Request("vacuum", safe)) if safe else []
        found = [flush, compact, [report for report in optimize if report.scope not in folded], vacuum]
        requests = [Request(operation, tuple(tables)) for operation in ("flush", "compact", "optimize")]
        pairs = zip((*requests, Request("vacuum", safe)), found, strict=True)
        plans = [self._kept(request, reports, planned_at).plan for request, reports in pairs]
        return [plan for plan in plans if plan.scopes]

    def apply(self, given: Plan | str, permit: Permit) -> list[ScopeReport]:
        """Applies a plan by its id, or as a file has it: a report for each scope, `done`, or `failed` where it moved.

        Raises:
            InvalidArgument, NotFound: it is not a plan of this warehouse.
            Moved: the plan is too old.
            PermissionDenied: as `permit`.
        """
        plan_id = given if isinstance(given, str) else given.plan_id
        if isinstance(given, Plan):
            self._check_given(given)
        kept = self._log.begin(plan_id, self._warehouse.clock()).plan
        if kept is None:
            raise NotFound(f"plan {plan_id} was removed with the user whom it named")
        permit(kept.request)
        plan, refused = (kept, []) if isinstance(given, str) else self._as_kept(given, kept)
        asked = Asked(plan.request.tables, plan.request.user).parameters | {PLAN: plan_id}
        reports = self.operator.as_job(plan.operation, asked, lambda job_id: self._run(plan, job_id), None)
        return [replace(report, plan_id=plan_id) for report in (*reports, *refused)]

    def _run(self, plan: Plan, job_id: str) -> list[ScopeReport]:
        catalog, now = self._warehouse.catalog.read(), self._warehouse.clock()
        there: dict[Scope, ScopeTarget | None] = {}
        held: list[ScopeReport] = []
        for line in plan.scopes:
            try:
                there[line.scope] = self._resolved(catalog, plan, line)
            except LakewardenError as error:
                held.append(line.failed(plan.operation, error, now))
        standing = [line for line in plan.scopes if line.scope in there]
        if not standing:
            return held
        targets = [target for target in there.values() if target is not None]
        return self._applied(plan, standing, targets, job_id) + held

    def _applied(
        self, plan: Plan, lines: Sequence[PlannedScope], targets: Sequence[ScopeTarget], job_id: str
    ) -> list[ScopeReport]:
        warehouse, run, large, request = self._warehouse, self.operator.engine.run, self.operator.flush_large, plan.request
        applying = Applying(plan.plan_id, {line.scope: line for line in lines})
        match plan.operation:
            case "flush":
                return apply_flush(warehouse, run, large, applying, job_id)
            case "evict":
                return apply_evict(warehouse, lines)
            case "restore":
                rewind = Rewind(*self._restore(request), request.discard_pending, dry_run=False, job_id=job_id)
                return apply_rewind(warehouse, run, large, rewind, targets, applying)
            case _:
                options = options_of(request, warehouse)
                return maintain_targets(warehouse, run, targets, options, dry_run=False, job_id=job_id, applying=applying)

    def _resolved(self, catalog: Catalog, plan: Plan, line: PlannedScope) -> ScopeTarget | None:
        """The scope as the catalog has it now; None where its operation needs its log alone.

        Raises:
            Moved: it is another table, or is at another place; or there is no such table any more.
        """
        try:
            table = find_table(catalog, line.scope.table)
        except NotFound as error:
            raise Moved(f"{error.message}; plan again") from error
        if plan.operation == "evict":
            line.check_place(table.log_id, Location(self._warehouse.state.uri).below(self._warehouse.log(table).home).uri)
            return None
        target = self._warehouse.target(catalog, line.scope)
        line.check_place(table.log_id, target.uri)
        return target

    def _restore(self, request: Request) -> tuple[TableName, str | None, RestoreOptions]:
        options = options_of(request, self._warehouse)
        assert isinstance(options, RestoreOptions)  # those of a restore
        return TableName.parse(request.tables[0]), request.user, options

    def _kept(self, request: Request, reports: Sequence[ScopeReport], planned_at: datetime) -> Preview:
        catalog = self._warehouse.catalog.read()
        plan_id = f"PL-{to_millis(planned_at):012x}-{self._warehouse.new_id()[:8]}"
        lines = tuple(
            PlannedScope.of(report, find_table(catalog, report.scope.table).log_id)
            for report in reports
            if report.outcome == "planned"
        )
        if len(lines) > MAX_SCOPES:
            raise InvalidArgument(f"{len(lines)} scopes have something to {request.operation}; a plan has at most {MAX_SCOPES}")
        plan = Plan(plan_id, self._warehouse.id, planned_at, request, lines)
        self._log.keep(plan)
        return Preview(plan, [replace(report, plan_id=plan_id) for report in reports])

    def _check_given(self, given: Plan) -> None:
        if given.warehouse != self._warehouse.id:
            raise InvalidArgument(
                f"plan {given.plan_id} was made for warehouse {given.warehouse}, and this is {self._warehouse.id}: apply it there"
            )
        if len(given.scopes) > MAX_SCOPES:
            raise InvalidArgument(f"plan {given.plan_id} has {len(given.scopes)} scopes; a plan has at most {MAX_SCOPES}")

    def _as_kept(self, given: Plan, kept: Plan) -> tuple[Plan, list[ScopeReport]]:
        """The lines of the given plan that are those of the kept one; and the reports of those that are not.

        Raises:
            InvalidArgument: it is not the plan of that id.
        """
        if (given.request, given.planned_at) != (kept.request, kept.planned_at):
            raise InvalidArgument(f"plan {kept.plan_id} requests something else than this warehouse planned; plan again")
        lines = {line.scope: line for line in kept.scopes}
        same = tuple({line.scope: line for line in given.scopes if lines.get(line.scope) == line}.values())
        other = [line for line in given.scopes if lines.get(line.scope) != line]
        why = "is not in the plan as the warehouse keeps it: the file was changed, or the user was erased; plan again"
        now = self._warehouse.clock()
        refused = [line.failed(kept.operation, Moved(f"{line.scope} {why}"), now) for line in other]
        return replace(kept, scopes=same), refused

    @property
    def _warehouse(self) -> Warehouse:
        return self.operator.warehouse

    @property
    def _log(self) -> PlanLog:
        return PlanLog(self._warehouse.state, self._warehouse.erasures)
