"""The operator: plans operations, runs them as jobs, applies plans, and queues jobs; the driver of all procedures.

Each job has an id that its commits carry and the job log keeps. Each call reads the catalog once, for the procedure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from lakewarden.base.clock import to_millis
from lakewarden.base.commit_metadata import Metadata, attached, carried, carrying
from lakewarden.base.scope import Scope
from lakewarden.catalog.model import Catalog
from lakewarden.catalog.operations import Operation
from lakewarden.catalog.report import ScopeReport
from lakewarden.catalog.state.job import METADATA, Job
from lakewarden.errors import InvalidArgument, Moved, NotFound
from lakewarden.maintenance.flush.due import Only, plan_flush
from lakewarden.maintenance.plans.still_planned import PLAN
from lakewarden.maintenance.plans.store import DoneBy, PlanLog
from lakewarden.maintenance.plans.value import MAX_SCOPES, Plan, plan_of
from lakewarden.maintenance.procedure import AsAWhole, procedure_of
from lakewarden.maintenance.request import Request, check_queueable, check_request, new_request, request_of_job
from lakewarden.maintenance.scopes import named_tables
from lakewarden.maintenance.vacuum.removable import vacuumable
from lakewarden.maintenance.workplace import Workplace
from lakewarden.tables.warehouse import find_table

Permit = Callable[[Request], None]
"""Raises where the session that applies the plan may not run its operation."""


@dataclass(frozen=True)
class Operator(Workplace):
    """Does operations over one warehouse."""

    def run(self, request: Request, job_id: str | None = None) -> list[ScopeReport]:
        """Runs the request without a plan; raises as the operation does. With `job_id`, the caller records the job."""
        return procedure_of(request.operation).run(self, self.warehouse.catalog.read(), request, job_id)

    def do(self, request: Request, *, dry_run: bool, metadata: Metadata | None = None) -> list[ScopeReport]:
        """Runs the request, or plans it and stores the plan; the reports of either. Its commits carry the metadata.

        Raises as `run` and `preview`.
        """
        with attached(metadata):
            if not dry_run:
                return self.run(request)
            planned_at, catalog = self.warehouse.clock(), self.warehouse.catalog.read()
            reports = procedure_of(check_request(request).operation).look(self, catalog, request)
            return [*self.kept(request, reports, planned_at, catalog).reports]

    def look(self, request: Request) -> list[ScopeReport]:
        """What a plan would report, without storing one.

        Raises as `preview`.
        """
        return procedure_of(check_request(request).operation).look(self, self.warehouse.catalog.read(), request)

    def preview(self, request: Request) -> Plan:
        """Makes a plan and stores it; it comes with the report of each scope, including those with nothing to do.

        Raises:
            InvalidArgument, Unsupported, NotFound: the request is invalid, or has too many scopes for a plan.
        """
        planned_at, catalog = self.warehouse.clock(), self.warehouse.catalog.read()
        reports = procedure_of(check_request(request).operation).look(self, catalog, request)
        return self.kept(request, reports, planned_at, catalog)

    def kept(self, request: Request, reports: Sequence[ScopeReport], planned_at: datetime, catalog: Catalog) -> Plan:
        """Stores the plan of what a look found that began at `planned_at`.

        Raises:
            InvalidArgument: it has too many scopes for a plan.
        """
        plan_id = f"PL-{to_millis(planned_at):012x}-{self.warehouse.new_id()[:8]}"
        lines = tuple(
            report.plan or plan_of(report, find_table(catalog, report.scope.table).log_id)
            for report in reports
            if report.outcome == "planned"
        )
        if len(lines) > MAX_SCOPES:
            raise InvalidArgument(f"{len(lines)} scopes need {request.operation}; a plan has at most {MAX_SCOPES}")
        shown = tuple(replace(report, plan_id=plan_id) for report in reports)
        plan = Plan(plan_id, self.warehouse.id, planned_at, request, lines, shown)
        self._plans.keep(plan, self.warehouse.clock)
        return plan

    def due(self, tables: Sequence[str], due: Collection[Scope], *, look: bool = False) -> list[Plan]:
        """What maintenance would do now: a plan for each operation that has something to do, in the order to apply them; and one
        without a scope where all that it might have to do could not be looked at.

        A scope that is compacted is not optimized by the same plans: the second would find its files replaced.
        """
        warehouse, planned_at = self.warehouse, self.warehouse.clock()
        catalog = warehouse.catalog.read()
        named = named_tables(catalog, tables)
        names, safe = {table.name for table in named}, vacuumable(warehouse, named)
        flush = plan_flush(warehouse, catalog, Only([scope for scope in due if scope.table in names]))
        compact, optimize, vacuum = self.upkeep(catalog, tables, safe, look=look)
        folded = {report.scope for report in compact if report.outcome == "planned"}
        found = [flush, compact, [report for report in optimize if report.scope not in folded], vacuum]
        requests = [new_request(operation, tables) for operation in ("flush", "compact", "optimize")]
        pairs = zip((*requests, new_request("vacuum", safe)), found, strict=True)
        plans = [self.kept(request, reports, planned_at, catalog) for request, reports in pairs]
        return [plan for plan in plans if plan.scopes or plan.failed]

    def upkeep(self, catalog: Catalog, tables: Sequence[str], safe: Sequence[str], *, look: bool) -> Iterator[list[ScopeReport]]:
        """What a schedule would compact, optimize and, of the tables that are `safe`, vacuum: the reports of each."""
        for operation in ("compact", "optimize"):
            yield procedure_of(operation).look(self, catalog, new_request(operation, tables, look=look, scheduled=True))
        yield procedure_of("vacuum").look(self, catalog, new_request("vacuum", safe, look=look)) if safe else []

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
        found = self._plans.begin(plan_id, self.warehouse.clock())
        if (kept := found.plan) is None:
            permit(new_request("erase", ()))  # nothing else removes a plan and leaves what it did
            if found.done is None:
                raise NotFound(f"plan {plan_id} was removed with the user whom it named; if that erasure failed, erase again")
            return [replace(report, plan_id=plan_id) for report in self._plans.erased_before(self.warehouse.uri, found.done)]
        permit(kept.request)
        plan, refused = (kept, []) if isinstance(given, str) else self._as_kept(given, kept)
        procedure = procedure_of(plan.operation)
        if isinstance(procedure, AsAWhole):
            reports = refused or self._as_a_whole(procedure, kept, found.done)
        else:
            catalog, by_scope = self.warehouse.catalog.read(), procedure
            noted = plan.request.scopes | {PLAN: plan_id}
            reports = self.as_job(plan.operation, noted, lambda id_: by_scope.apply(self, catalog, plan, id_), None) + refused
        return [replace(report, plan_id=plan_id) for report in reports]

    def enqueue(self, request: Request, request_id: str | None = None) -> Job:
        """Queues an operation for a runner, after checking that it can be done.

        Raises:
            NotFound, InvalidArgument, Unsupported, AlreadyActive: as `Lakehouse.enqueue`.
        """
        procedure_of(check_queueable(request).operation).check_queued(self, self.warehouse.catalog.read(), request)
        metadata = {METADATA: text} if (text := carried()) else {}
        return self.jobs.enqueue(request.operation, request.parameters | metadata, request_id)

    def run_job(self, job: Job) -> list[ScopeReport]:
        """Runs a queued job's request under its id."""
        with carrying(job.parameters.get(METADATA, "")):
            return self.run(request_of_job(job), job.job_id)

    def remember(self, operation: Operation, reports: Sequence[ScopeReport], *, rechecks: bool = True) -> None:
        from lakewarden.maintenance.check.memory import remember  # brings the checks, which most operations never need

        remember(self.warehouse, self.engine.run, operation, reports, rechecks=rechecks)

    def _as_a_whole(self, procedure: AsAWhole, plan: Plan, before: DoneBy | None) -> list[ScopeReport]:
        """Does all that was planned, or nothing. What an earlier apply did is reported."""
        now = self.warehouse.clock()
        if before is not None:
            return [line.done(plan.operation, now, before.message) for line in plan.scopes]
        try:
            done = procedure.apply(self, plan)
        except Moved as moved:
            return [line.failed(plan.operation, moved, now) for line in plan.scopes]
        self._plans.finish(plan.plan_id, done)
        return [line.done(plan.operation, now, done.message) for line in plan.scopes]

    def _check_given(self, given: Plan) -> None:
        if given.warehouse != self.warehouse.id:
            raise InvalidArgument(
                f"plan {given.plan_id} was made for warehouse {given.warehouse}, and this is {self.warehouse.id}: apply it there"
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
        now = self.warehouse.clock()
        refused = [line.failed(kept.operation, Moved(f"{line.scope} {why}"), now) for line in other]
        return replace(kept, scopes=same), refused

    @property
    def _plans(self) -> PlanLog:
        return PlanLog(self.warehouse.state, self.warehouse.erasures)
