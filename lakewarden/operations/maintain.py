"""Compact, optimize, vacuum and restore over many scopes: opens each, plans, and runs the plan unless it is a dry run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from lakewarden.catalog.model import TableSchema
from lakewarden.clock import CarriedClock, Clock, random_id
from lakewarden.delta.manifest import refresh_manifest
from lakewarden.delta.timeline import VACUUM_END, LogEntry
from lakewarden.errors import Conflict, Internal, LakewardenError, Moved
from lakewarden.operations.compact.scope import CompactOptions, CompactPlan, plan_compact, replan_compact, run_compact
from lakewarden.operations.fanout import Run, Sized, failed_report, guarded
from lakewarden.operations.floors import Noted, add_looks, forget_moved, known_of, not_moved, raise_floors
from lakewarden.operations.optimize.scope import OptimizeOptions, OptimizePlan, plan_optimize, replan_optimize, run_optimize
from lakewarden.operations.optimize.zorder import check_columns
from lakewarden.operations.pins import forget_expired, pinned_versions
from lakewarden.operations.plans.moved import PLAN, commit_of
from lakewarden.operations.plans.scope_plan import ScopePlan
from lakewarden.operations.plans.value import Applying, PlannedScope
from lakewarden.operations.presence import Presence
from lakewarden.operations.request import Request
from lakewarden.operations.restore.scope import (
    RestoreOptions,
    RestorePlan,
    plan_restore,
    replan_restore,
    restore_options,
    run_restore,
)
from lakewarden.operations.tags import tagged_versions
from lakewarden.operations.upkeep.notes import is_news
from lakewarden.operations.upkeep.rules import Rules
from lakewarden.operations.vacuum.blocked import blocked_scopes
from lakewarden.operations.vacuum.scope import VacuumOptions, VacuumPlan, plan_vacuum, replan_vacuum, retention_of, run_vacuum
from lakewarden.operations.vacuum.unreferenced_files import hot_files
from lakewarden.report import Operation, ScopeReport
from lakewarden.scope import Scope, TableName
from lakewarden.storage.durability import sync
from lakewarden.storage.steps import Steps
from lakewarden.target import ScopeTarget
from lakewarden.warehouse import Warehouse, find_table

Options = CompactOptions | OptimizeOptions | VacuumOptions | RestoreOptions

_COMMITS: dict[Operation, str] = {"compact": "COMPACT", "optimize": "OPTIMIZE", "vacuum": VACUUM_END, "restore": "RESTORE"}
"""The operation that each plan's commit is stamped with."""

_SCOPE_COST = 64 << 10
"""The assumed bytes of one scope in a pack: its sizes are unknown until its table is opened."""


@dataclass(frozen=True)
class MaintainTask:
    """One operation on one scope, as it is sent to a task. `clock` was read for the request."""

    target: ScopeTarget
    options: Options
    dry_run: bool
    job_id: str
    clock: CarriedClock
    planned: PlannedScope | None = None
    """The scope's line of the plan, where a plan is applied."""
    plan_id: str = ""


def options_of(request: Request, warehouse: Warehouse) -> Options:
    """The options of a request, completed by the settings.

    Raises:
        NotFound, InvalidArgument: the table does not exist; a restore names no version, or one version for every user.
    """
    settings = warehouse.settings
    match request.operation:
        case "compact":
            return CompactOptions.of(settings.compaction)
        case "optimize":
            return OptimizeOptions(request.zorder, settings.maintenance.min_gain)
        case "vacuum":
            return VacuumOptions(request.retain_hours, request.force, request.ignore_checks)
        case "restore":
            table = find_table(warehouse.catalog.read(), TableName.parse(request.tables[0]))
            return restore_options(table, request.user, request.version, request.timestamp)
        case _:
            raise Internal(f"{request.operation} is not maintenance of Delta tables")


def restore_of(request: Request, warehouse: Warehouse) -> tuple[TableName, str | None, RestoreOptions]:
    """The table and user of a restore, and its target; raises as `options_of`."""
    options = options_of(request, warehouse)
    assert isinstance(options, RestoreOptions)  # those of a restore
    return TableName.parse(request.tables[0]), request.user, options


def operation_of(options: Options) -> Operation:
    match options:
        case CompactOptions():
            return "compact"
        case OptimizeOptions():
            return "optimize"
        case VacuumOptions():
            return "vacuum"
        case RestoreOptions():
            return "restore"


def maintain_targets(
    warehouse: Warehouse,
    run: Run,
    targets: Sequence[ScopeTarget],
    options: Options,
    *,
    dry_run: bool,
    job_id: str,
    applying: Applying | None = None,
) -> list[ScopeReport]:
    """One job over these scopes, or `applying` a plan that has all of them; durable on a local disk when it returns.

    Raises:
        NotFound, InvalidArgument: an option is not valid; nothing was done.
    """
    for target in targets:
        check_options(target.scope, target.schema, target.retention_hours, options)
    clock = CarriedClock.of(warehouse.clock)
    now = clock.moment
    choices = _with_kept(warehouse, targets, options, now)
    tasks = [MaintainTask(target, choice, dry_run, job_id, clock) for target, choice in zip(targets, choices, strict=True)]
    if applying is not None:
        tasks = [replace(task, planned=applying.scopes[task.target.scope], plan_id=applying.plan_id) for task in tasks]
    refused = _refused(warehouse, targets, options)
    there = [task for task in tasks if task.target.scope not in refused]
    done = iter(run(maintain_scope, [Sized(task, _SCOPE_COST, task.target.on_disk) for task in there]))
    operation = operation_of(options)
    errors = ((target, refused.get(target.scope)) for target in targets)
    reports = [next(done) if error is None else failed_report(target, operation, error, now) for target, error in errors]
    sync({report.uri for report in reports if report.outcome == "done"})
    reports = _noted(warehouse, targets, reports)
    if isinstance(options, VacuumOptions) and not dry_run:
        _forget_pins(warehouse, targets, now)
    return reports


def _refused(warehouse: Warehouse, targets: Sequence[ScopeTarget], options: Options) -> Mapping[Scope, LakewardenError]:
    """The scopes that are not worked on: their storage is away, or a failed check keeps a vacuum from them."""
    present = Presence.of(targets)
    away = {target.scope: error for target in targets if (error := present.why_not(target)) is not None}
    checked = isinstance(options, VacuumOptions) and not options.ignore_checks
    return {**(blocked_scopes(warehouse, targets) if checked else {}), **away}


def _noted(warehouse: Warehouse, targets: Sequence[ScopeTarget], reports: Sequence[ScopeReport]) -> list[ScopeReport]:
    """The reports; those whose new versions could not be recorded on the floors become failed.

    A commit may have followed a freeze, and then its version stays at the old place: so moved scopes are checked afterwards.
    A move that this check misses has seen the record.
    """
    pairs = list(zip(targets, reports, strict=True))
    rules, now = Rules.of(warehouse.settings), warehouse.clock()
    seen = ((target, report, known_of(target, report, rules, now)) for target, report in pairs)
    found = [(report.outcome, Noted(target, known)) for target, report, known in seen if known is not None]
    noted = [one for outcome, one in found if outcome == "done"]
    unnoted = raise_floors(noted)
    if noted:
        forget_moved(warehouse, noted)
    looked = [one for outcome, one in found if outcome != "done"]
    if any(is_news(one.known, one.target.known) for one in looked):
        add_looks(not_moved(warehouse, looked))
    return [unnoted.judged(target, report) for target, report in pairs]


def maintain_scope(task: MaintainTask) -> Steps[ScopeReport]:
    return guarded(task.target, operation_of(task.options), _maintain(task))


def _maintain(task: MaintainTask) -> Steps[ScopeReport]:
    def looked() -> datetime:
        """When pins and file references were read."""
        return task.clock.moment

    if task.planned is not None:
        return (yield from _apply(task, task.planned, looked))
    plan = _plan(task, looked)
    if task.dry_run:
        return plan.report()
    if plan.nothing and plan.table is not None:
        refresh_manifest(task.target, plan.table, task.clock())  # the last committer may have died before writing its manifest
    return (yield from _run(task, plan))


def _plan(task: MaintainTask, clock: Clock) -> ScopePlan:
    match task.options:
        case CompactOptions():
            return plan_compact(task.target, task.options, clock=clock)
        case OptimizeOptions():
            return plan_optimize(task.target, task.options, clock=clock)
        case VacuumOptions():
            return plan_vacuum(task.target, task.options, clock=clock)
        case RestoreOptions():
            return plan_restore(task.target, task.options, clock=clock)


def _replan(task: MaintainTask, planned: PlannedScope, clock: Clock) -> ScopePlan:
    """The planned work, on the table as it is now.

    Raises:
        Moved: what the plan depends on has changed.
    """
    match task.options:
        case CompactOptions():
            return replan_compact(task.target, planned, clock=clock)
        case OptimizeOptions():
            return replan_optimize(task.target, task.options, planned, clock=clock)
        case VacuumOptions():
            return replan_vacuum(task.target, task.options, planned, task.plan_id, clock=clock)
        case RestoreOptions():
            return replan_restore(task.target, task.options, planned, task.plan_id, clock=clock)


def _run(task: MaintainTask, plan: ScopePlan) -> Steps[ScopeReport]:
    """Runs a plan under the task's job."""
    match plan:
        case CompactPlan():
            return run_compact(plan, job_id=task.job_id, clock=task.clock, new_id=random_id)
        case OptimizePlan():
            return run_optimize(plan, job_id=task.job_id, clock=task.clock, new_id=random_id)
        case VacuumPlan():
            return run_vacuum(plan, job_id=task.job_id, clock=task.clock, new_id=random_id)
        case RestorePlan():
            return run_restore(plan, job_id=task.job_id, clock=task.clock, new_id=random_id)
        case _:
            raise Internal(f"{type(plan).__name__} is not a plan of maintenance")


def _apply(task: MaintainTask, planned: PlannedScope, clock: Clock) -> Steps[ScopeReport]:
    """Applies the plan to the scope; where that is already done, reports what was done.

    Raises:
        Moved: what the plan depends on has changed; nothing was done.
    """
    try:
        plan = _replan(task, planned, clock)
        if task.dry_run:
            return plan.report()
        report = yield from _run(task, replace(plan, parameters={**plan.parameters, PLAN: task.plan_id}))
        if report.outcome == "skipped":
            raise Moved(f"{report.scope} changed while the plan was applied: {report.reason}; plan again")
    except (Moved, Conflict):  # or another apply of the plan came first
        before = commit_of(task.target, planned, task.plan_id, _COMMITS[operation_of(task.options)])
        if before is None:
            raise
        return _done_before(task, planned, before)
    return report


def _done_before(task: MaintainTask, planned: PlannedScope, commit: LogEntry) -> ScopeReport:
    """The report of a scope that an earlier apply has done."""
    return ScopeReport(
        task.target.scope,
        operation_of(task.options),
        "done",
        task.target.location,
        reason=f"applied before, in version {commit.version}",
        version=commit.version,
        parameters={**planned.parameters, PLAN: task.plan_id},
        metrics=dict(planned.metrics),
    )


def check_options(subject: Scope | TableName, schema: TableSchema, retention_hours: float, options: Options) -> None:
    """Refuses the whole request, before anything is done, if no scope could do it."""
    if isinstance(options, VacuumOptions):
        retention_of(subject, retention_hours, options)
    elif isinstance(options, OptimizeOptions):
        check_columns(schema, options.zorder)


def _with_kept(warehouse: Warehouse, targets: Sequence[ScopeTarget], options: Options, now: datetime) -> list[Options]:
    """The options of each scope: a vacuum keeps what the scope's tags name, its readers pin, and its hot rows refer to.

    `now` is taken before the pins are read, so that versions pinned meanwhile are inside the vacuum's retention.
    """
    if not isinstance(options, VacuumOptions):
        return [options] * len(targets)
    catalog = warehouse.catalog.read()
    names = {target.scope.table for target in targets}
    ids = {name: find_table(catalog, name).id for name in names}
    tagged = {name: tagged_versions(warehouse.state, table_id) for name, table_id in ids.items()}
    pinned = {name: pinned_versions(warehouse.state, table_id, now) for name, table_id in ids.items()}
    hot = {name: hot_files(warehouse, find_table(catalog, name)) for name in names}
    return [
        replace(
            options,
            keep_versions=(*options.keep_versions, *_of(tagged, target.scope), *_of(pinned, target.scope)),
            keep_files=hot[target.scope.table].get(target.scope.user, frozenset()),
        )
        for target in targets
    ]


def _of(kept: Mapping[TableName, Mapping[str | None, tuple[int, ...]]], scope: Scope) -> tuple[int, ...]:
    return kept[scope.table].get(scope.user, ())


def _forget_pins(warehouse: Warehouse, targets: Sequence[ScopeTarget], now: datetime) -> None:
    catalog = warehouse.catalog.read()
    for name in {target.scope.table for target in targets}:
        forget_expired(warehouse.state, find_table(catalog, name).id, now)
