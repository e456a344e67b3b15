"""Compact, optimize, vacuum and restore over many scopes: opens each, plans, and runs the plan unless it is a dry run."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import ClassVar, Generic, TypeVar

from lakewarden.base.clock import CarriedClock, random_id
from lakewarden.base.scope import Scope, TableName
from lakewarden.catalog.model import Catalog, Table, TableSchema
from lakewarden.catalog.operations import Operation
from lakewarden.catalog.report import ScopePlan, ScopeReport
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.manifest import refresh_manifest
from lakewarden.errors import Conflict, LakewardenError, Moved
from lakewarden.maintenance.options import Options
from lakewarden.maintenance.plans.rounds import Round, note_turn
from lakewarden.maintenance.plans.scope_work import ScopeWork
from lakewarden.maintenance.plans.select import Need, choose_scopes
from lakewarden.maintenance.plans.still_planned import PLAN, commit_of, standing
from lakewarden.maintenance.plans.value import Plan
from lakewarden.maintenance.procedure import ByScope
from lakewarden.maintenance.request import Request
from lakewarden.maintenance.scopes import explained, left_out, named_tables, readable_targets
from lakewarden.maintenance.workplace import Workplace
from lakewarden.storage.disk import sync
from lakewarden.storage.steps import Steps, alone
from lakewarden.tables.fanout import Run, SizedWork, begin_scope, failed_report, fault_report
from lakewarden.tables.floors import FloorNote, add_looks, forget_moved, known_of, not_moved, raise_floors
from lakewarden.tables.presence import Presence
from lakewarden.tables.upkeep_notes import is_news
from lakewarden.tables.warehouse import Warehouse, cold_tables

Taken = TypeVar("Taken", bound=Options)

_SCOPE_COST = 64 << 10
"""The assumed bytes of one scope in a pack: its sizes are unknown until its table is opened."""


class TableMaintenance(ByScope, Generic[Taken]):
    """An operation on each scope's Delta table by itself: it plans the work on a scope, and the plan runs itself.

    Picklable: it is sent to tasks.
    """

    operation: ClassVar[Operation]
    commits: ClassVar[str]
    """The operation that its commits are stamped with."""
    takes: type[Taken]
    may_follow_freeze: ClassVar[bool] = True
    """Whether a commit of it may follow the freeze of a move: its version then stays at the old place."""

    @abstractmethod
    def plan(self, target: ScopeTarget, options: Taken, *, now: datetime) -> ScopeWork:
        """Plans the work on a scope. `now` was read before the first look, as at pins and at what rows in the log refer to."""

    @abstractmethod
    def replan(self, target: ScopeTarget, options: Taken, planned: ScopePlan, plan_id: str, *, now: datetime) -> ScopeWork:
        """The planned work, on the table as it is now.

        Raises:
            Moved: what the plan depends on has changed.
        """

    def check(self, options: Taken, subject: Scope | TableName, schema: TableSchema, retention_hours: float) -> None:
        """Refuses the whole request, before anything is done, if no scope could do it.

        Raises:
            InvalidArgument: an option is not valid for the table.
        """
        return

    def refused(self, at: Workplace, options: Taken, targets: Sequence[ScopeTarget]) -> Mapping[Scope, LakewardenError]:
        """The scopes that it must not work on, with the reason."""
        return {}

    def completed(
        self, at: Workplace, catalog: Catalog, options: Taken, targets: Sequence[ScopeTarget], now: datetime
    ) -> Sequence[Taken]:
        """The options of each scope, with what the state knows of it. `now` was read before."""
        return [options] * len(targets)

    def finish(self, at: Workplace, catalog: Catalog, targets: Sequence[ScopeTarget], now: datetime) -> None:
        """Tidies the state after a run; `now` as in `completed`."""
        return

    def need(self, warehouse: Warehouse, table: Table, options: Taken) -> Need | None:
        """When it opens a scope of the table; None where it opens all."""
        return None

    def going_round(self, warehouse: Warehouse, table: Table) -> Round | None:
        """The round in which it comes to every scope of the table; None where it goes none."""
        return None

    def look(self, at: Workplace, catalog: Catalog, request: Request) -> list[ScopeReport]:
        return self._maintain(at, catalog, MaintenanceRun(self, request.options_of(self.takes), "", dry_run=True), request)

    def run(self, at: Workplace, catalog: Catalog, request: Request, job_id: str | None = None) -> list[ScopeReport]:
        options = request.options_of(self.takes)

        def work(id_: str) -> list[ScopeReport]:
            return self._maintain(at, catalog, MaintenanceRun(self, options, id_), request)

        return at.as_job(self.operation, request.scopes, work, job_id)

    def apply(self, at: Workplace, catalog: Catalog, plan: Plan, job_id: str) -> list[ScopeReport]:
        still = standing(at.warehouse, catalog, plan)
        run = MaintenanceRun(self, plan.request.options_of(self.takes), job_id).applying(plan.plan_id, still.lines)
        return maintain_targets(at, catalog, run, still.targets) + still.refused

    def _maintain(self, at: Workplace, catalog: Catalog, run: MaintenanceRun[Taken], request: Request) -> list[ScopeReport]:
        """One job over the scopes of the tables (all where none is named); durable on a local disk when it returns.

        Scopes in which nothing is to do, by what the state knows, are not opened; where a table has many of them, one report
        counts them. A request with `look`, or for one user, opens each scope. The scopes of a table whose floor cannot be read
        fail, as do those on a storage that is away, in one report where they are many; those of the others are done.

        Raises:
            NotFound, InvalidArgument: a name, a user or an option is not valid; nothing was done.
        """
        warehouse, options = at.warehouse, run.options
        idle = [] if request.tables else left_out(warehouse, catalog, self.operation, cold_tables(catalog))
        if request.look or request.user is not None or not warehouse.identifies:
            targets, unread = readable_targets(warehouse, catalog, request.tables, request.user)
            held = [failed_report(target, self.operation, error, warehouse.clock()) for target, error in unread]
            return maintain_targets(at, catalog, run, targets, spread=at.spread) + held + idle
        tables = named_tables(catalog, request.tables)
        for table in tables:
            self.check(options, table.name, table.schema, warehouse.retention_hours(table))
        chosen = [
            choose_scopes(
                warehouse,
                catalog,
                table,
                self.operation,
                self.need(warehouse, table, options),
                self.going_round(warehouse, table),
            )
            for table in tables
        ]
        targets = [target for one in chosen for target in one.targets]
        reports = maintain_targets(at, catalog, run, targets, spread=at.spread)
        for table, one in zip(tables, chosen, strict=True):
            if one.turn:
                note_turn(warehouse, table, one.turn, dry_run=run.dry_run)
        return reports + [report for one in chosen for report in one.others] + idle


@dataclass(frozen=True)
class MaintenanceRun(Generic[Taken]):
    """An operation over scopes as it is planned (`dry_run`), run, or applied by a plan's lines.

    Picklable: with the options and the line of one scope alone it is sent to a task.
    """

    does: TableMaintenance[Taken]
    options: Taken
    job_id: str
    dry_run: bool = False
    plan_id: str = ""
    lines: Mapping[Scope, ScopePlan] = field(default_factory=dict)

    def applying(self, plan_id: str, lines: Sequence[ScopePlan]) -> MaintenanceRun[Taken]:
        return replace(self, plan_id=plan_id, lines={line.scope: line for line in lines})

    def looking(self) -> MaintenanceRun[Taken]:
        """The same, which changes nothing."""
        return replace(self, dry_run=True)

    def task(self, scope: Scope, options: Taken) -> MaintenanceRun[Taken]:
        """The same for one scope, without the lines of the others: a plan may have thousands."""
        lines = {scope: self.lines[scope]} if scope in self.lines else {}
        return replace(self, options=options, lines=lines)


def maintain_targets(
    at: Workplace, catalog: Catalog, run: MaintenanceRun[Taken], targets: Sequence[ScopeTarget], spread: Run | None = None
) -> list[ScopeReport]:
    """Plans or runs the operation on these scopes, or applies the lines of a plan, which has all of them; durable on a local disk
    when it returns.

    Raises:
        NotFound, InvalidArgument: an option is not valid; nothing was done.
    """
    does, warehouse = run.does, at.warehouse
    # All of them before anything is done: a request is refused as a whole.
    for target in targets:
        does.check(run.options, target.scope, target.schema, target.retention_hours)
    clock = CarriedClock.of(warehouse.clock)
    now, present = clock.moment, Presence.of(targets)
    large = None if spread is None else warehouse.settings.flush.large_scope_bytes
    # Not worked on: those whose storage is away, or which the operation refuses.
    away = {target.scope: error for target in targets if (error := present.why_not(target)) is not None}
    refused = {**does.refused(at, run.options, targets), **away}
    there = [target for target in targets if target.scope not in refused]
    completed = does.completed(at, catalog, run.options, there, now)
    tasks = [(target, run.task(target.scope, options)) for target, options in zip(there, completed, strict=True)]
    work = partial(maintain_scope, clock=clock, large_bytes=large)
    done = iter(at.engine.run(work, [SizedWork(task, _SCOPE_COST, task[0].on_disk) for task in tasks]))
    if spread is not None:
        done = (
            alone(maintain_scope(task, clock=clock, spread=spread)) if report.outcome == "deferred" else report
            for task, report in zip(tasks, done, strict=True)
        )
    errors = ((target, refused.get(target.scope)) for target in targets)
    reports = [next(done) if error is None else failed_report(target, does.operation, error, now) for target, error in errors]
    # Durable before it is noted: a floor above what a power cut left would read as a loss.
    sync({report.uri for report in reports if report.outcome == "done"})
    reports = _noted(warehouse, run, targets, explained(warehouse, catalog, reports))
    if not run.dry_run:
        does.finish(at, catalog, targets, now)
    return reports


def _noted(
    warehouse: Warehouse, run: MaintenanceRun[Taken], targets: Sequence[ScopeTarget], reports: Sequence[ScopeReport]
) -> list[ScopeReport]:
    """The reports; those whose new versions could not be recorded on the floors become failed.

    A commit may have followed a freeze, and then its version stays at the old place: so moved scopes are checked afterwards.
    A move that this check misses has seen the record.
    """
    pairs = list(zip(targets, reports, strict=True))
    now = warehouse.clock()
    seen = ((target, report, known_of(target, report, now)) for target, report in pairs)
    found = [(report.outcome, FloorNote(target, known)) for target, report, known in seen if known is not None]
    noted = [one for outcome, one in found if outcome == "done"]
    unnoted = raise_floors(noted)
    if noted and run.does.may_follow_freeze:
        forget_moved(warehouse, noted)
    looked = [one for outcome, one in found if outcome != "done"]
    if any(is_news(one.known, one.target.known) for one in looked):
        add_looks(not_moved(warehouse, looked))
    return [unnoted.judged(target, report, now) for target, report in pairs]


def maintain_scope(
    task: tuple[ScopeTarget, MaintenanceRun[Taken]],
    *,
    clock: CarriedClock,
    large_bytes: int | None = None,
    spread: Run | None = None,
) -> Steps[ScopeReport]:
    """The work on one scope, whose errors become its report, as in `fanout.guarded`.

    Args:
        clock: was read for the request.
        large_bytes: a plan that reads more is deferred, if it can be spread.
        spread: where it is spread then; work that has it is not sent away.
    """
    target, run = task
    begin_scope(target)
    try:
        if (planned := run.lines.get(target.scope)) is not None:
            return (yield from _apply(target, run, planned, clock))
        plan = run.does.plan(target, run.options, now=clock.moment)
        if run.dry_run:
            return plan.report()
        if plan.nothing and plan.table is not None:
            refresh_manifest(target, plan.table, clock())  # the last committer may have died before writing its manifest
        if spread is not None:
            plan = plan.spread_over(spread)
        elif large_bytes is not None and plan.is_larger(large_bytes):
            return plan.deferred()
        return (yield from plan.run(job_id=run.job_id, clock=clock, new_id=random_id))
    except Exception as error:  # noqa: BLE001  # as in `guarded`
        return fault_report(target, run.does.operation, error, clock())


def _apply(target: ScopeTarget, run: MaintenanceRun[Taken], planned: ScopePlan, clock: CarriedClock) -> Steps[ScopeReport]:
    """Applies the plan to the scope; where that is already done, reports what was done.

    Raises:
        Moved: what the plan depends on has changed; nothing was done.
    """
    try:
        plan = run.does.replan(target, run.options, planned, run.plan_id, now=clock.moment)
        if run.dry_run:
            return plan.report()
        named = replace(plan, parameters={**plan.parameters, PLAN: run.plan_id})
        report = yield from named.run(job_id=run.job_id, clock=clock, new_id=random_id)
        if report.outcome == "skipped":
            raise Moved(f"{report.scope} changed while the plan was applied: {report.reason}; plan again")
    except (Moved, Conflict):  # or another apply of the plan came first
        before = commit_of(target, planned, run.plan_id, run.does.commits)
        if before is None:
            raise
        return ScopeReport(
            target.scope,
            run.does.operation,
            "done",
            target.location,
            reason=f"applied before, in version {before.version}",
            version=before.version,
            parameters={**planned.parameters, PLAN: run.plan_id},
            metrics=dict(planned.metrics),
        )
    return report
