"""The planner: makes plans and keeps them (`applier` applies them)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from lakewarden.base.clock import to_millis
from lakewarden.base.scope import Scope
from lakewarden.catalog.operations import Request
from lakewarden.catalog.report import ScopeReport
from lakewarden.errors import InvalidArgument
from lakewarden.maintenance.execution.operator import Operator
from lakewarden.maintenance.flush.plan import plan_flush
from lakewarden.maintenance.flush.selection import Only
from lakewarden.maintenance.planning.propose import vacuumable
from lakewarden.maintenance.plans.store import PlanLog
from lakewarden.maintenance.plans.value import MAX_SCOPES, Plan, PlannedScope
from lakewarden.maintenance.procedures.procedure import procedure_of
from lakewarden.maintenance.request import check_request
from lakewarden.maintenance.scopes import named_tables
from lakewarden.tables.warehouse import Warehouse, find_table


@dataclass(frozen=True)
class Preview:
    """A plan, and the report of each scope, including those with nothing to do."""

    plan: Plan
    reports: list[ScopeReport]

    @property
    def failed(self) -> list[ScopeReport]:
        """The scopes that could not be looked at."""
        return [report for report in self.reports if report.fault]


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
        return self.kept(request, self.look(request), planned_at)

    def kept(self, request: Request, reports: Sequence[ScopeReport], planned_at: datetime) -> Preview:
        """Stores the plan of what a look found that began at `planned_at`.

        Raises:
            InvalidArgument: it has too many scopes for a plan.
        """
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
        PlanLog(self._warehouse.state, self._warehouse.erasures).keep(plan)
        return Preview(plan, [replace(report, plan_id=plan_id) for report in reports])

    def look(self, request: Request) -> list[ScopeReport]:
        """What a plan would report, without storing one.

        Raises as `preview`.
        """
        return procedure_of(check_request(request).operation).look(self.operator.workplace, request)

    def due(self, tables: Sequence[str], due: Collection[Scope], *, look: bool = False) -> list[Preview]:
        """What maintenance would do now: a plan for each operation that has something to do, in the order to apply them; and one
        without a scope where all that it might have to do could not be looked at.

        A scope that is compacted is not optimized by the same plans: the second would find its files replaced.
        """
        warehouse, planned_at = self._warehouse, self._warehouse.clock()
        names = {table.name for table in named_tables(warehouse.catalog.read(), tables)}
        flush = plan_flush(warehouse, Only([scope for scope in due if scope.table in names]))
        compact, optimize = (
            self.look(Request(operation, tuple(tables), look=look, scheduled=True)) for operation in ("compact", "optimize")
        )
        folded = {report.scope for report in compact if report.outcome == "planned"}
        safe = tuple(vacuumable(warehouse, names))
        vacuum = self.look(Request("vacuum", safe, look=look)) if safe else []
        found = [flush, compact, [report for report in optimize if report.scope not in folded], vacuum]
        requests = [Request(operation, tuple(tables)) for operation in ("flush", "compact", "optimize")]
        pairs = zip((*requests, Request("vacuum", safe)), found, strict=True)
        previews = [self.kept(request, reports, planned_at) for request, reports in pairs]
        return [one for one in previews if one.plan.scopes or one.failed]

    @property
    def _warehouse(self) -> Warehouse:
        return self.operator.warehouse
