"""Compact, optimize, vacuum and restore over many scopes: plan each, and run the plan unless it is a dry run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from lakewarden.clock import random_id
from lakewarden.operations.compact import CompactOptions, plan_compact, run_compact
from lakewarden.operations.fanout import Advance, FanOut, Sized, guarded
from lakewarden.operations.optimize import OptimizeOptions, plan_optimize, run_optimize
from lakewarden.report import Operation, ScopeReport, ScopeTarget
from lakewarden.operations.restore import RestoreOptions, plan_restore, run_restore
from lakewarden.operations.vacuum import VacuumOptions, plan_vacuum, run_vacuum
from lakewarden.storage.durability import sync

Options = CompactOptions | OptimizeOptions | VacuumOptions | RestoreOptions

_SCOPE_COST = 64 << 10
"""Bytes that one scope weighs in a pack: its sizes are not known before its table is opened."""


@dataclass(frozen=True)
class MaintainTask:
    """One operation on one scope, as it crosses to a task. `now` is the moment of the request."""

    target: ScopeTarget
    options: Options
    dry_run: bool
    job_id: str
    now: datetime


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


def maintain_scope(task: MaintainTask) -> ScopeReport:
    return guarded(task.target, operation_of(task.options), lambda: _maintain(task))


def maintain(
    warehouse: Warehouse, run: Run, tables: Sequence[str], user: str | None, options: Options, *, dry_run: bool
) -> list[ScopeReport]:
    """One job over the scopes of the tables (all where none is named); durable on a local disk when it returns.

    Raises:
        NotFound, InvalidArgument: a name or a user that is none; nothing was done.
    """
    catalog = warehouse.catalog.read()
    return _run(warehouse, run, targets_of(warehouse, catalog, tables, user), options, dry_run)


def _run(warehouse: Warehouse, run: Run, targets: Sequence[ScopeTarget], options: Options, dry_run: bool) -> list[ScopeReport]:
    job_id = new_job_id(operation_of(options), warehouse.clock, warehouse.new_id)
    now = warehouse.clock()
    tasks = [MaintainTask(target, _for_scope(warehouse, target, options), dry_run, job_id, now) for target in targets]
    reports = run(maintain_scope, [Sized(task, _SCOPE_COST) for task in tasks])
    sync({report.uri for report in reports if report.outcome == "done"})
    return reports
