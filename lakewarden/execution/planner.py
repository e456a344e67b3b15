"""The planner: makes plans and keeps them (`applier` applies them)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from lakewarden.clock import to_millis
from lakewarden.errors import InvalidArgument
from lakewarden.execution.operator import Operator
from lakewarden.operations.flush.plan import plan_flush
from lakewarden.operations.flush.wanted import Only
from lakewarden.operations.maintain import options_of, restore_of
from lakewarden.operations.plans.copies import plan_export, plan_move
from lakewarden.operations.plans.removals import plan_drop, plan_erase
from lakewarden.operations.plans.store import PlanLog
from lakewarden.operations.plans.value import MAX_SCOPES, Plan, PlannedScope
from lakewarden.operations.request import Request, Selection, check_request, request_of
from lakewarden.operations.scopes import named_tables
from lakewarden.planning.propose import vacuumable
from lakewarden.repair.plan import as_reports
from lakewarden.repair.report import Repaired
from lakewarden.report import ScopeReport
from lakewarden.scope import Scope, TableName
from lakewarden.state.erasure_requests import find_request, nameless
from lakewarden.warehouse import Warehouse, find_table


@dataclass(frozen=True)
class Preview:
    """A plan, and the report of each scope, including those with nothing to do."""

    plan: Plan
    reports: list[ScopeReport]


@dataclass(frozen=True)
class Planner:
    """The plans of one warehouse."""

    operator: Operator

    def preview(self, request: Request) -> Preview:
        """Makes a plan and stores it.

        Raises:
            InvalidArgument, Unsupported, NotFound: the request is invalid, or has too many scopes for a plan.
        """
        planned_at = self._warehouse.clock()
        return self._kept(request, self.look(request), planned_at)

    def preview_requested(self, request: str) -> Plan:
        """The plan of the erasure that was requested under this keyed hash; errors name the user by it.

        Raises:
            NotFound, InvalidArgument: no such erasure was requested.
        """
        erasure = find_request(self._warehouse.state, request)
        with nameless(erasure.user, request):
            return self.preview(request_of(erasure)).plan

    def preview_repair(self, request: Request) -> list[Repaired]:
        """Makes the plan of a repair, and returns all that was found, with the plan's id; raises as `preview`."""
        check_request(request)
        planned_at, found = self._warehouse.clock(), self._damage(request)
        plan_id = self._kept(request, as_reports(self._warehouse, found), planned_at).plan.plan_id
        return [replace(one, plan_id=plan_id) for one in found]

    def _damage(self, request: Request) -> list[Repaired]:
        return self.operator.repair(request.tables, request.user, dry_run=True, restored=request.restored)

    def look(self, request: Request) -> list[ScopeReport]:
        """What a plan would report, without storing one.

        Raises as `preview`.
        """
        check_request(request)
        selection = Selection(request.tables, request.user, request.look)
        match request.operation:
            case "flush":
                return plan_flush(self._warehouse, self.operator.flushable(selection))
            case "evict":
                return self.operator.evict(selection, dry_run=True)
            case "drop" | "erase" | "export" | "move":
                return self._look_at_whole(request)
            case "repair":
                return as_reports(self._warehouse, self._damage(request))
            case "restore":
                return self.operator.restore(*restore_of(request, self._warehouse), discard=request.discard_pending, dry_run=True)
            case _:
                return self.operator.maintain(selection, options_of(request, self._warehouse), dry_run=True)

    def _look_at_whole(self, request: Request) -> list[ScopeReport]:
        """For an operation that is applied as a whole."""
        match request.operation:
            case "drop":
                return [plan_drop(self._warehouse, TableName.parse(request.tables[0]))]
            case "move":
                return [plan_move(self._warehouse, TableName.parse(request.tables[0]), request.to or "")]
            case "export":
                return plan_export(self._warehouse, request)
            case _:
                return plan_erase(self._warehouse, request)

    def due(self, tables: Sequence[str], due: Collection[Scope], *, look: bool = False) -> list[Plan]:
        """What maintenance would do now: a plan for each operation, in the order to apply them.

        A scope that is compacted is not optimized by the same plans: the second would find its files replaced.
        """
        warehouse, planned_at = self._warehouse, self._warehouse.clock()
        names = {table.name for table in named_tables(warehouse.catalog.read(), tables)}
        flush = plan_flush(warehouse, Only([scope for scope in due if scope.table in names]))
        compact, optimize = (self.look(Request(operation, tuple(tables), look=look)) for operation in ("compact", "optimize"))
        folded = {report.scope for report in compact if report.outcome == "planned"}
        safe = tuple(vacuumable(warehouse, names))
        vacuum = self.look(Request("vacuum", safe, look=look)) if safe else []
        found = [flush, compact, [report for report in optimize if report.scope not in folded], vacuum]
        requests = [Request(operation, tuple(tables)) for operation in ("flush", "compact", "optimize")]
        pairs = zip((*requests, Request("vacuum", safe)), found, strict=True)
        plans = [self._kept(request, reports, planned_at).plan for request, reports in pairs]
        return [plan for plan in plans if plan.scopes]

    def _kept(self, request: Request, reports: Sequence[ScopeReport], planned_at: datetime) -> Preview:
        catalog = self._warehouse.catalog.read()
        plan_id = f"PL-{to_millis(planned_at):012x}-{self._warehouse.new_id()[:8]}"
        lines = tuple(
            PlannedScope.of(report, find_table(catalog, report.scope.table).log_id)
            for report in reports
            if report.outcome == "planned"
        )
        if len(lines) > MAX_SCOPES:
            raise InvalidArgument(f"{len(lines)} scopes need {request.operation}; a plan has at most {MAX_SCOPES}")
        plan = Plan(plan_id, self._warehouse.id, planned_at, request, lines)
        self._log.keep(plan)
        return Preview(plan, [replace(report, plan_id=plan_id) for report in reports])

    @property
    def _warehouse(self) -> Warehouse:
        return self.operator.warehouse

    @property
    def _log(self) -> PlanLog:
        return PlanLog(self._warehouse.state, self._warehouse.erasures)
