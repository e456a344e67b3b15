"""Flush: from the write log into the scopes' Delta tables, one strict commit a scope, one job for all that are due.

The order is what keeps rows: read the log, commit each scope with its watermark, make the commits durable, and only
then settle the log (docs/log.md, Flush). Whatever dies in between, the same again is right.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from lakewarden.catalog.model import Catalog
from lakewarden.clock import random_id, system_clock
from lakewarden.delta.apply import ColdApply, TooLarge, Written
from lakewarden.faults import Reach, no_faults
from lakewarden.log.drain import drain
from lakewarden.log.position import end_of
from lakewarden.log.settle import Settler
from lakewarden.log.view import LogView, PendingRows, last_position, read_views, rows_of
from lakewarden.operations.fanout import Run, Sized, guarded
from lakewarden.operations.job import new_job_id
from lakewarden.report import ScopeReport, ScopeTarget
from lakewarden.scope import Scope
from lakewarden.storage.durability import sync
from lakewarden.warehouse import Warehouse, find_table, state_store

_SCOPE_COST = 32 << 10
"""Bytes that opening, merging and committing a scope weigh in a pack, beside its rows: a few milliseconds' worth."""


@dataclass(frozen=True)
class FlushTask:
    """The flush of one scope, as it crosses to a task: it carries where the rows lie, never the rows."""

    target: ScopeTarget
    state_uri: str
    log_id: str
    pending: PendingRows
    end: int
    job_id: str
    attempts: int
    large_bytes: int


class WriteLarge(Protocol):
    """Writes the files of a flush that is too large for one task (`spark.large.LargeFlush.write`)."""

    def __call__(self, task: FlushTask, cold: ColdApply) -> Written: ...


def flush_scope(task: FlushTask, reach: Reach = no_faults) -> ScopeReport:
    """Flushes one scope here and now."""
    return guarded(task.target, "flush", lambda: _flush_small(task, reach))


def flush_scopes(
    warehouse: Warehouse, run: Run, large: Callable[[], WriteLarge], wanted: Callable[[Scope], bool], reach: Reach = no_faults
) -> list[ScopeReport]:
    """One job over all pending scopes that are wanted; one report a scope, and the log settled when it returns.

    A scope that fails keeps its rows in the log, and the others are done.
    """
    catalog = warehouse.catalog.read()
    views = read_views(warehouse.state, warehouse.headers)
    job_id = new_job_id("flush", warehouse.clock, warehouse.new_id)
    tasks = [task for task in _tasks(warehouse, catalog, views, job_id) if wanted(task.target.scope)]
    _register(warehouse, catalog, tasks)
    reports = run(flush_scope, [Sized(task, task.pending.bytes + _SCOPE_COST) for task in tasks])
    reports = [
        _flush_large(task, large()) if report.outcome == "deferred" else report
        for task, report in zip(tasks, reports, strict=True)
    ]
    reach("after-commits")
    sync({warehouse.base(storage) for storage in catalog.storages.values()})
    reach("after-sync")
    _settle(warehouse, catalog, tasks, reports, reach)
    return reports


def _tasks(warehouse: Warehouse, catalog: Catalog, views: dict[str, LogView], job_id: str) -> Iterable[FlushTask]:
    flush = warehouse.settings.flush
    for table in catalog.tables.values():
        if (view := views.get(table.log_id)) is None:
            continue
        for pending in view.pending.values():
            target = warehouse.target(catalog, Scope(table.name, pending.user or None))
            yield FlushTask(
                target, warehouse.state.uri, table.log_id, pending, view.end, job_id, flush.attempts, flush.large_scope_bytes
            )


def _register(warehouse: Warehouse, catalog: Catalog, tasks: Sequence[FlushTask]) -> None:
    """Records new scopes before their first commit, so that none is ever forgotten; one object a table."""
    users: dict[str, set[str]] = defaultdict(set)
    for task in tasks:
        if task.target.scope.user is not None:
            users[find_table(catalog, task.target.scope.table).id].add(task.target.scope.user)
    for table_id, found in users.items():
        if new := found - warehouse.registry.users(table_id):
            warehouse.registry.add(table_id, new)


def _flush_small(task: FlushTask, reach: Reach) -> ScopeReport:
    if task.pending.bytes > task.large_bytes:
        return _deferred(task, task.pending.bytes)
    try:
        cold = _drain(task, lambda: _open(task, reach))
    except TooLarge as error:
        return _deferred(task, error.bytes)
    return _report(task, cold)


def _flush_large(task: FlushTask, write: WriteLarge) -> ScopeReport:
    """A scope of its own in Spark: the same drain, but the files are written by many tasks."""

    def run() -> ScopeReport:
        for _ in range(task.attempts):
            cold = _open(task, no_faults)
        return _report(task, cold)

    return guarded(task.target, "flush", run)
