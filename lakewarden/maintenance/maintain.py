"""Compact, optimize, vacuum and restore over many scopes: opens each, plans, and runs the plan unless it is a dry run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from lakewarden.base.clock import CarriedClock, Clock, random_id
from lakewarden.base.scope import Scope
from lakewarden.catalog.report import ScopeReport
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.manifest import refresh_manifest
from lakewarden.delta.timeline import LogEntry
from lakewarden.errors import Conflict, LakewardenError, Moved
from lakewarden.maintenance.plans.scope_options import ScopeOptions
from lakewarden.maintenance.plans.still_planned import PLAN, commit_of
from lakewarden.maintenance.plans.value import Applying, PlannedScope
from lakewarden.storage.disk import sync
from lakewarden.storage.steps import Steps, alone
from lakewarden.tables.fanout import Run, SizedWork, failed_report, guarded
from lakewarden.tables.floors import FloorNote, add_looks, forget_moved, known_of, not_moved, raise_floors
from lakewarden.tables.presence import Presence
from lakewarden.tables.upkeep_notes import is_news
from lakewarden.tables.warehouse import Warehouse

_SCOPE_COST = 64 << 10
"""The assumed bytes of one scope in a pack: its sizes are unknown until its table is opened."""


@dataclass(frozen=True)
class MaintainTask:
    """One operation on one scope, as it is sent to a task. `clock` was read for the request."""

    target: ScopeTarget
    options: ScopeOptions
    dry_run: bool
    job_id: str
    clock: CarriedClock
    planned: PlannedScope | None = None
    """The scope's line of the plan, where a plan is applied."""
    plan_id: str = ""
    large_bytes: int | None = None
    """A plan that reads more is deferred, if it can be spread."""
    spread: Run | None = None
    """Where it is spread then; a task that has it is not sent away."""


def maintain_targets(
    warehouse: Warehouse,
    run: Run,
    targets: Sequence[ScopeTarget],
    options: ScopeOptions,
    *,
    dry_run: bool,
    job_id: str,
    applying: Applying | None = None,
    spread: Run | None = None,
) -> list[ScopeReport]:
    """One job over these scopes, or `applying` a plan that has all of them; durable on a local disk when it returns.

    Raises:
        NotFound, InvalidArgument: an option is not valid; nothing was done.
    """
    for target in targets:
        options.check(target.scope, target.schema, target.retention_hours)
    clock = CarriedClock.of(warehouse.clock)
    now = clock.moment
    choices = options.completed(warehouse, targets, now)
    large = None if spread is None else warehouse.settings.flush.large_scope_bytes
    tasks = [
        MaintainTask(target, choice, dry_run, job_id, clock, large_bytes=large)
        for target, choice in zip(targets, choices, strict=True)
    ]
    if applying is not None:
        tasks = [replace(task, planned=applying.scopes[task.target.scope], plan_id=applying.plan_id) for task in tasks]
    refused = _refused(warehouse, targets, options)
    there = [task for task in tasks if task.target.scope not in refused]
    done = iter(run(maintain_scope, [SizedWork(task, _SCOPE_COST, task.target.on_disk) for task in there]))
    if spread is not None:
        done = (_spread(task, report, spread) for task, report in zip(there, done, strict=True))
    errors = ((target, refused.get(target.scope)) for target in targets)
    reports = [next(done) if error is None else failed_report(target, options.operation, error, now) for target, error in errors]
    sync({report.uri for report in reports if report.outcome == "done"})
    reports = _noted(warehouse, targets, reports)
    if not dry_run:
        options.finish(warehouse, targets, now)
    return reports


def _spread(task: MaintainTask, report: ScopeReport, spread: Run) -> ScopeReport:
    """The report of a scope that was deferred, after it was done."""
    return alone(maintain_scope(replace(task, spread=spread))) if report.outcome == "deferred" else report


def _refused(warehouse: Warehouse, targets: Sequence[ScopeTarget], options: ScopeOptions) -> Mapping[Scope, LakewardenError]:
    """The scopes that are not worked on: their storage is away, or the operation refuses them."""
    present = Presence.of(targets)
    away = {target.scope: error for target in targets if (error := present.why_not(target)) is not None}
    return {**options.refused(warehouse, targets), **away}


def _noted(warehouse: Warehouse, targets: Sequence[ScopeTarget], reports: Sequence[ScopeReport]) -> list[ScopeReport]:
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
    if noted:
        forget_moved(warehouse, noted)
    looked = [one for outcome, one in found if outcome != "done"]
    if any(is_news(one.known, one.target.known) for one in looked):
        add_looks(not_moved(warehouse, looked))
    return [unnoted.judged(target, report, now) for target, report in pairs]


def maintain_scope(task: MaintainTask) -> Steps[ScopeReport]:
    return guarded(task.target, task.options.operation, task.clock, _maintain(task))


def _maintain(task: MaintainTask) -> Steps[ScopeReport]:
    def looked() -> datetime:
        """When pins and file references were read."""
        return task.clock.moment

    if task.planned is not None:
        return (yield from _apply(task, task.planned, looked))
    plan = task.options.plan(task.target, clock=looked)
    if task.dry_run:
        return plan.report()
    if plan.nothing and plan.table is not None:
        refresh_manifest(task.target, plan.table, task.clock())  # the last committer may have died before writing its manifest
    if task.spread is not None:
        plan = plan.spread_over(task.spread)
    elif task.large_bytes is not None and plan.is_larger(task.large_bytes):
        return plan.deferred()
    return (yield from plan.run(job_id=task.job_id, clock=task.clock, new_id=random_id))


def _apply(task: MaintainTask, planned: PlannedScope, clock: Clock) -> Steps[ScopeReport]:
    """Applies the plan to the scope; where that is already done, reports what was done.

    Raises:
        Moved: what the plan depends on has changed; nothing was done.
    """
    try:
        plan = task.options.replan(task.target, planned, task.plan_id, clock=clock)
        if task.dry_run:
            return plan.report()
        named = replace(plan, parameters={**plan.parameters, PLAN: task.plan_id})
        report = yield from named.run(job_id=task.job_id, clock=task.clock, new_id=random_id)
        if report.outcome == "skipped":
            raise Moved(f"{report.scope} changed while the plan was applied: {report.reason}; plan again")
    except (Moved, Conflict):  # or another apply of the plan came first
        before = commit_of(task.target, planned, task.plan_id, task.options.commits)
        if before is None:
            raise
        return _done_before(task, planned, before)
    return report


def _done_before(task: MaintainTask, planned: PlannedScope, commit: LogEntry) -> ScopeReport:
    """The report of a scope that an earlier apply has done."""
    return ScopeReport(
        task.target.scope,
        task.options.operation,
        "done",
        task.target.location,
        reason=f"applied before, in version {commit.version}",
        version=commit.version,
        parameters={**planned.parameters, PLAN: task.plan_id},
        metrics=dict(planned.metrics),
    )
