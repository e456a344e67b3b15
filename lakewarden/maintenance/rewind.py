"""Restore over scopes: deals with pending rows first, then restores the scopes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lakewarden.base.scope import Scope, TableName
from lakewarden.catalog.report import ScopeReport
from lakewarden.catalog.target import ScopeTarget
from lakewarden.errors import Moved
from lakewarden.log.position import NOTHING
from lakewarden.log.table_log import TableLog
from lakewarden.log.view import LogView
from lakewarden.maintenance.flush.run import FlushLarge, Upto, flush_scopes
from lakewarden.maintenance.flush.selection import Only
from lakewarden.maintenance.maintain import maintain_targets
from lakewarden.maintenance.plans.value import Applying, PlannedScope
from lakewarden.maintenance.restore.scope import RestoreOptions
from lakewarden.maintenance.scopes import targets_of
from lakewarden.tables.fanout import Run, failed_report
from lakewarden.tables.warehouse import Warehouse, find_table


@dataclass(frozen=True)
class Rewind:
    """A restore as it was requested. `discard_pending`: pending rows are dropped, instead of flushed first."""

    table: TableName
    user: str | None
    options: RestoreOptions
    discard_pending: bool
    dry_run: bool
    job_id: str


def rewind(warehouse: Warehouse, run: Run, large: FlushLarge, request: Rewind) -> list[ScopeReport]:
    """Plans every scope, and runs the plans that succeed; a scope whose plan fails keeps its pending rows as they are.

    Raises:
        NotFound, InvalidArgument: the table does not exist, or the user is invalid.
    """
    catalog = warehouse.catalog.read()
    targets = targets_of(warehouse, catalog, [str(request.table)], request.user)
    table = find_table(catalog, request.table)
    log, kept = warehouse.log(table), warehouse.retention_of(table)
    view = log.view(_users(targets))
    plans = maintain_targets(warehouse, run, targets, request.options, dry_run=True, job_id=request.job_id)
    if request.dry_run:
        return [replace(_with_pending(plan, view, request), basis=replace(plan.basis, end=view.end)) for plan in plans]
    sound = [target for target, plan in zip(targets, plans, strict=True) if plan.fault is None]
    made = {report.scope: report for report in _restored(warehouse, run, large, request, sound, log, view, kept)}
    return [made.get(plan.scope, plan) for plan in plans]


def apply_rewind(
    warehouse: Warehouse, run: Run, large: FlushLarge, request: Rewind, targets: Sequence[ScopeTarget], applying: Applying
) -> list[ScopeReport]:
    """Applies a plan; refuses scopes that have newer rows in the log, or another version.

    Raises:
        NotFound: the table was dropped.
    """
    table = find_table(warehouse.catalog.read(), request.table)
    log, kept = warehouse.log(table), warehouse.retention_of(table)
    view = log.view(_users(targets))
    waiting = view.pending_of(_users(targets))
    hot = [target for target in targets if (target.scope.user or "") in waiting]
    looks = maintain_targets(warehouse, run, hot, request.options, dry_run=True, job_id=request.job_id, applying=applying)
    held = {look.scope: look for look in looks if look.outcome == "done" or look.fault}
    for target in hot:
        if target.scope not in held and (late := _late(view, applying.scopes[target.scope])) is not None:
            held[target.scope] = failed_report(target, "restore", late, warehouse.clock())
    ready = [target for target in targets if target.scope not in held]
    return [*held.values(), *_restored(warehouse, run, large, request, ready, log, view, kept, applying)]


def _restored(
    warehouse: Warehouse,
    run: Run,
    large: FlushLarge,
    request: Rewind,
    targets: Sequence[ScopeTarget],
    log: TableLog,
    view: LogView,
    kept_seconds: float,
    applying: Applying | None = None,
) -> list[ScopeReport]:
    if request.discard_pending:
        reports = _discard(warehouse, run, request, targets, log, view, kept_seconds, applying)
    else:
        reports = _flush_first(warehouse, run, large, request, targets, view, applying)
    if marks := [warehouse.erasures.mark(report.scope.user or "") for report in reports if report.outcome == "done"]:
        log.note_rewound(marks)
    return reports


def _late(view: LogView, planned: PlannedScope) -> Moved | None:
    """Returns why rows in the log prevent a planned restore; None where the plan has seen them all."""
    last, end = view.pending[planned.user or ""].last_seq, NOTHING if planned.end is None else planned.end
    if last <= end:
        return None
    return Moved(f"{planned.scope} has rows in the log up to _seq {last}, and its restore was planned up to {end}; plan again")


def _end(applying: Applying) -> int:
    """Where the table's log ended when the restore was planned."""
    return next((planned.end for planned in applying.scopes.values() if planned.end is not None), NOTHING)


def _flush_first(
    warehouse: Warehouse,
    run: Run,
    large: FlushLarge,
    request: Rewind,
    targets: Sequence[ScopeTarget],
    view: LogView,
    applying: Applying | None = None,
) -> list[ScopeReport]:
    """Flushes, then restores. A scope whose flush fails is not restored: its rows would be applied on top later. If the log
    cannot be read, one report for the whole table says so; then any scope may have pending rows, and none is restored."""
    waiting = view.pending_of(_users(targets))
    scopes = {target.scope for target in targets if (target.scope.user or "") in waiting}
    upto = None if applying is None else Upto(applying.plan_id, {view.log_id: _end(applying)})
    flushed = flush_scopes(warehouse, run, large, Only(scopes), job_id=request.job_id, upto=upto) if scopes else []
    faults = {report.scope: report for report in flushed if report.fault}
    of_the_log = faults.get(Scope(request.table, None))
    failed = {
        target.scope: replace(report, scope=target.scope, operation="restore", location=target.location)
        for target in targets
        if (report := faults.get(target.scope, of_the_log)) is not None
    }
    ready = [target for target in targets if target.scope not in failed]
    done = maintain_targets(warehouse, run, ready, request.options, dry_run=False, job_id=request.job_id, applying=applying)
    return [*failed.values(), *done]


def _discard(
    warehouse: Warehouse,
    run: Run,
    request: Rewind,
    targets: Sequence[ScopeTarget],
    log: TableLog,
    view: LogView,
    kept_seconds: float,
    applying: Applying | None = None,
) -> list[ScopeReport]:
    """Restores and drops pending rows: the restoring commit itself settles them, so a flush that has read them is refused."""
    log.make_durable(view)
    end = view.end if applying is None else _end(applying)
    options = replace(request.options, discard_to=end)
    reports = maintain_targets(warehouse, run, targets, options, dry_run=False, job_id=request.job_id, applying=applying)
    settled = {report.scope.user or "": end for report in reports if report.fault is None}
    if settled:
        log.settle(view, settled, keep=kept_seconds)
    return reports


def _with_pending(plan: ScopeReport, view: LogView, request: Rewind) -> ScopeReport:
    """The plan, with what would happen to the scope's pending rows."""
    pending = view.pending.get(plan.scope.user or "")
    if pending is None or plan.fault is not None:
        return plan
    fate = "would be dropped" if request.discard_pending else "would be flushed first, and then removed too"
    return replace(plan, outcome="planned", reason=f"{plan.reason}; {pending.rows} pending rows {fate}")


def _users(targets: Sequence[ScopeTarget]) -> list[str]:
    """As the log names them."""
    return [target.scope.user or "" for target in targets]
