"""Looks at the scopes of tables, and once more where something seems wrong: what works meanwhile parts catalog, log and table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from lakewarden.catalog.model import Catalog, Table
from lakewarden.catalog.target import ScopeTarget
from lakewarden.errors import Corrupt, LakewardenError
from lakewarden.maintenance.check.scope import UNKNOWN, CheckedScope, CheckTask, check_scope
from lakewarden.storage.steps import in_one_step
from lakewarden.tables.fanout import Run, SizedWork
from lakewarden.tables.warehouse import Warehouse, live_tables

_SCOPE_COST = 64 << 10


def log_end(warehouse: Warehouse, table: Table) -> int:
    """The last `_seq` of the table's log; `UNKNOWN` where it cannot be read."""
    try:
        return warehouse.log(table).view(()).end
    except LakewardenError:
        return UNKNOWN


def target_of(warehouse: Warehouse, catalog: Catalog, table: Table, user: str | None) -> ScopeTarget:
    """The scope's target, without its floor where that cannot be read."""
    try:
        return warehouse.target_of(catalog, table, user)
    except Corrupt:
        return warehouse.bare_target(catalog, table, user)


def task_of(warehouse: Warehouse, table: Table, target: ScopeTarget, end: int) -> CheckTask:
    """`end`: what `log_end` says of the table."""
    return CheckTask(target, warehouse.state.uri, end, warehouse.clock(), table.move is not None)


def check_scopes(warehouse: Warehouse, run: Run, tasks: Sequence[CheckTask]) -> list[tuple[CheckTask, CheckedScope]]:
    """Checks each scope, and returns the task of its last look.

    A fault counts only if a second look has it too, which begins with the catalog and the log of then. Of a scope whose table was
    dropped meanwhile nothing is found.
    """
    checked = _look(run, tasks)
    wrong = [at for at, (_, one) in enumerate(checked) if not all(finding.passed for finding in one.findings)]
    if wrong:
        catalog = warehouse.catalog.read()
        tables = {table.log_id: table for table in live_tables(catalog)}
        there = [at for at in wrong if tasks[at].target.log_id in tables]
        again = [_anew(warehouse, catalog, tables[tasks[at].target.log_id], tasks[at]) for at in there]
        second = dict(zip(there, _look(run, again), strict=True))
        for at in wrong:
            checked[at] = second.get(at, (tasks[at], CheckedScope(())))
    return checked


def _look(run: Run, tasks: Sequence[CheckTask]) -> list[tuple[CheckTask, CheckedScope]]:
    found = run(partial(in_one_step, check_scope), [SizedWork(task, _SCOPE_COST) for task in tasks])
    return list(zip(tasks, found, strict=True))


def _anew(warehouse: Warehouse, catalog: Catalog, table: Table, task: CheckTask) -> CheckTask:
    target = target_of(warehouse, catalog, table, task.target.scope.user)
    return replace(task, target=target, log_end=log_end(warehouse, table), moving=table.move is not None)
