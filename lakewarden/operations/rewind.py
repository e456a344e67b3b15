"""Restore over scopes: what becomes of pending rows comes first, then the scopes go back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lakewarden.log.table_log import TableLog
from lakewarden.log.view import LogView
from lakewarden.operations.fanout import Run
from lakewarden.operations.flush import FlushLarge, flush_scopes
from lakewarden.operations.maintain import maintain_targets
from lakewarden.operations.restore import RestoreOptions
from lakewarden.operations.scopes import targets_of
from lakewarden.report import ScopeReport, ScopeTarget
from lakewarden.scope import Scope, TableName
from lakewarden.warehouse import Warehouse, find_table


@dataclass(frozen=True)
class Rewind:
    """A restore as it was asked for. `discard_pending`: pending rows are dropped, instead of flushed first."""

    table: TableName
    user: str | None
    options: RestoreOptions
    discard_pending: bool
    dry_run: bool
    job_id: str


def rewind(warehouse: Warehouse, run: Run, large: FlushLarge, asked: Rewind) -> list[ScopeReport]:
    """Plans every scope, and runs the plans that stand; a scope whose plan fails keeps its pending rows as they are.

    Raises:
        NotFound, InvalidArgument: the table or the user is none.
    """
    catalog = warehouse.catalog.read()
    targets = targets_of(warehouse, catalog, [str(asked.table)], asked.user)
    log = warehouse.log(find_table(catalog, asked.table))
    view = log.view()
    plans = maintain_targets(warehouse, run, targets, asked.options, dry_run=True, job_id=asked.job_id)
    if asked.dry_run:
        return [_with_pending(plan, view, asked) for plan in plans]
    sound = [target for target, plan in zip(targets, plans, strict=True) if plan.fault is None]
    if asked.discard_pending:
        reports = _discard(warehouse, run, asked, sound, log, view)
    else:
        reports = _flush_first(warehouse, run, large, asked, sound, view)
    made = {report.scope: report for report in reports}
    if marks := [warehouse.erasures.mark(report.scope.user or "") for report in made.values() if report.outcome == "done"]:
        log.note_rewound(marks)
    return [made.get(plan.scope, plan) for plan in plans]


def _flush_first(
    warehouse: Warehouse, run: Run, large: FlushLarge, asked: Rewind, targets: Sequence[ScopeTarget], view: LogView
) -> list[ScopeReport]:
    """A scope whose flush fails is not restored: its rows would come on top later. One report for the whole table says that its
    log cannot be read; then any scope may have pending rows, and none is restored."""
    scopes = {target.scope for target in targets if (target.scope.user or "") in view.pending}
    flushed = flush_scopes(warehouse, run, large, scopes.__contains__, job_id=asked.job_id) if scopes else []
    faults = {report.scope: report for report in flushed if report.fault}
    of_the_log = faults.get(Scope(asked.table, None))
    failed = {
        target.scope: replace(report, scope=target.scope, operation="restore", location=target.location)
        for target in targets
        if (report := faults.get(target.scope, of_the_log)) is not None
    }
    ready = [target for target in targets if target.scope not in failed]
    return [*failed.values(), *maintain_targets(warehouse, run, ready, asked.options, dry_run=False, job_id=asked.job_id)]


def _discard(
    warehouse: Warehouse, run: Run, asked: Rewind, targets: Sequence[ScopeTarget], log: TableLog, view: LogView
) -> list[ScopeReport]:
    """The restoring commit itself settles the pending rows, so that a flush that has read them already is refused."""
    log.make_durable(view)
    options = replace(asked.options, discard_to=view.end)
    reports = maintain_targets(warehouse, run, targets, options, dry_run=False, job_id=asked.job_id)
    settled = {report.scope.user or "": view.end for report in reports if report.fault is None}
    if settled:
        log.settle(view, settled)
    return reports


def _with_pending(plan: ScopeReport, view: LogView, asked: Rewind) -> ScopeReport:
    """The plan, with what would happen to the scope's pending rows."""
    pending = view.pending.get(plan.scope.user or "")
    if pending is None or plan.fault is not None:
        return plan
    fate = "would be dropped" if asked.discard_pending else "would be flushed first, and then taken out too"
    return replace(plan, outcome="planned", reason=f"{plan.reason}; {pending.rows} pending rows {fate}")
