"""Flush: moves rows from the write log into the scopes' Delta tables, one strict commit a scope, one job for all that are due.

The order keeps rows safe: read the log, commit each scope with its watermark, make the commits durable, and only
then settle the log (docs/log.md, Flush). After a crash at any point, the next flush repeats it correctly.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

import pyarrow as pa

from lakewarden.base.clock import CarriedClock, random_id
from lakewarden.base.faults import Reach, no_faults
from lakewarden.base.quantities import grouped
from lakewarden.base.scope import Scope
from lakewarden.catalog.model import Catalog
from lakewarden.catalog.report import ScopeReport
from lakewarden.catalog.state.job import new_job_id
from lakewarden.delta.apply import ColdApply
from lakewarden.delta.change import TooLarge
from lakewarden.delta.commit_log.commits import CommitLog
from lakewarden.delta.commit_log.committing import Committer
from lakewarden.delta.manifest import refresh_manifest
from lakewarden.delta.table import ScopeTable
from lakewarden.errors import Conflict, Corrupt, LakewardenError
from lakewarden.log.drain import LogScope, drain
from lakewarden.log.log_reader import LogReader
from lakewarden.log.objects.log_view import LogView
from lakewarden.log.position import NOTHING, position_of
from lakewarden.maintenance.flush.due import PendingScope, due_scopes, registered, unread, until, users_wanted
from lakewarden.maintenance.flush_task import FlushLarge, FlushTask
from lakewarden.maintenance.plans.still_planned import PLAN
from lakewarden.maintenance.scopes import explained
from lakewarden.storage.disk import sync
from lakewarden.storage.objects import Missing
from lakewarden.storage.open import open_store
from lakewarden.storage.steps import Steps
from lakewarden.tables.direct.barrier import raise_barriers
from lakewarden.tables.fanout import Run, SizedWork, failed_report, guarded
from lakewarden.tables.floors import FloorNote, LogStanding, floor_faults, known_of, raise_floors, shown
from lakewarden.tables.presence import Presence
from lakewarden.tables.warehouse import Warehouse, state_store

_SCOPE_COST = 32 << 10
"""The cost of opening, merging and committing a scope, in bytes of a pack, beside its rows: a few milliseconds' worth."""


@dataclass(frozen=True)
class FlushJob:
    """The job that flushes, or applies a plan."""

    job_id: str
    catalog: Catalog | None = None
    """As it was just read for the job, which spares a read."""
    plan_id: str = ""
    ends: Mapping[str, int] = field(default_factory=dict)
    """By log id, the end of the log when that was planned: later rows stay there."""


def flush_scopes(
    warehouse: Warehouse,
    run: Run,
    large: FlushLarge,
    wanted: Callable[[Scope], bool],
    *,
    job: FlushJob | None = None,
    reach: Reach = no_faults,
) -> list[ScopeReport]:
    """Flushes the wanted pending scopes in one job; one report a scope, and the log settled when it returns. A table whose
    log is corrupt gets one failed report.

    A scope that fails keeps its rows in the log; the others are done.
    """
    job = job or FlushJob(new_job_id("flush", warehouse.clock, warehouse.new_id))
    catalog = job.catalog or warehouse.catalog.read()
    found = warehouse.logs.views(users_wanted(catalog, wanted))
    views = found.sound
    due = list(due_scopes(catalog, views, wanted))
    if job.plan_id:
        due = [early for one in due if (early := until(one, job.ends.get(one.table.log_id, NOTHING))) is not None]
    logs = {one.table.log_id: warehouse.log(one.table) for one in due}
    forget_expired(warehouse, catalog, {log_id: view for log_id, view in views.items() if log_id not in logs})
    raise_barriers(warehouse, catalog, views, reach)
    failed = list(unread(warehouse, catalog, found.faults, wanted))
    if not due:
        return failed
    for log_id in sorted(logs):
        logs[log_id].make_durable(views[log_id])
    reach("planned")
    due, catalog = registered(warehouse, catalog, views, due)
    planned, held = _tasks(warehouse, catalog, due, job)
    present, refused = _refused(warehouse, planned)
    tasks = [task for task in planned if task.target.scope not in refused]
    now = warehouse.clock()
    held += [failed_report(one.target, "flush", refused[one.target.scope], now) for one in planned if one.target.scope in refused]
    small = run(
        partial(flush_scope, reach=reach),
        [SizedWork(task, task.pending.bytes + _SCOPE_COST, task.target.on_disk) for task in tasks],
    )
    pairs = zip(tasks, small, strict=True)
    reports = [large(task) if report.outcome == "deferred" else report for task, report in pairs]
    reach("after-commits")
    # the log's own objects too: a reader may have seen a segment just before its directory entry was durable
    sync({warehouse.uri, *(warehouse.base(storage) for storage in catalog.storages.values())})
    reach("after-sync")
    later = present.again()  # commits into an empty mount point are not settled
    reports = [later.judged(task.target, "flush", report, task.clock()) for task, report in zip(tasks, reports, strict=True)]
    reports = _noted(tasks, reports, warehouse.clock())
    reach("after-floors")
    _settle(warehouse, views, tasks, reports, reach)
    return explained(warehouse, catalog, reports) + held + failed


def flush_scope(task: FlushTask, reach: Reach = no_faults) -> Steps[ScopeReport]:
    """Flushes one scope in this process; one that is too large is `deferred`."""
    return guarded(task.target, "flush", task.clock, _flush(task, reach))


def open_cold(task: FlushTask, reach: Reach = no_faults, *, newest: bool = True) -> ColdApply:
    """Opens the scope's table for a flush. `newest` as in `open_scope`.

    Raises:
        Corrupt: by its watermark the table has some of the pending rows, and files that may hold them are missing.
    """
    cold = ColdApply(
        task.target,
        Committer(task.job_id, task.clock.moment, task.clock),
        new_id=random_id,
        reach=reach,
        large_bytes=task.large_bytes,
        named={PLAN: task.plan_id} if task.plan_id else {},
        newest=newest,
    )
    watermark = cold.watermark()
    if cold.table is not None and watermark is not None and watermark >= task.pending.first_seq:
        check_settled(cold.table, task.pending.first_seq)
    return cold


def hot_scope(task: FlushTask) -> LogScope:
    """The scope's pending rows, as the job planned them."""
    log = LogReader(state_store(task.state_uri), task.target.log_id)
    kind = _EarlyRows if task.plan_id else LogScope
    return kind(log, task.pending.user, task.target.schemas, task.end, task.pending, for_flush=True)


@dataclass(frozen=True)
class _EarlyRows(LogScope):
    """Rows up to the planned end of the log: a second read would include later ones."""

    def rows(self) -> pa.Table:
        try:
            return super().rows()
        except Missing as gone:
            raise Conflict(f"{gone} was settled by another flush while the plan was applied; apply it again") from gone


def done(task: FlushTask, cold: ColdApply) -> ScopeReport:
    """The report of a flushed scope: what its commit did, or that another flush came first."""
    applied = cold.applied
    if applied is None and cold.table is not None:
        refresh_manifest(task.target, cold.table, task.clock())  # the committer may have died before writing its manifest
    state = cold.state()
    return ScopeReport(
        task.target.scope,
        "flush",
        "done" if applied else "skipped",
        task.target.location,
        reason="" if applied else "the rows were flushed meanwhile",
        version=state.version if state else None,
        parameters={"job_id": task.job_id},
        metrics=applied.metrics if applied else {},
        state=state,
        finished_at=task.clock(),
    )


def _flush(task: FlushTask, reach: Reach) -> Steps[ScopeReport]:
    if task.pending.bytes > task.large_bytes:
        return _deferred(task)
    opened: list[ColdApply] = []

    def open_again() -> ColdApply:
        opened.append(open_cold(task, reach, newest=bool(opened)))  # a commit that lost shows that a newer one exists
        return opened[-1]

    try:
        yield from drain(hot_scope(task), open_again, attempts=task.attempts, reach=reach)
    except TooLarge:
        return _deferred(task)
    if opened[-1].applied is None:
        opened[-1].refresh_manifest()
    return done(task, opened[-1])


def _deferred(task: FlushTask) -> ScopeReport:
    return ScopeReport(task.target.scope, "flush", "deferred", task.target.location)


def _tasks(
    warehouse: Warehouse, catalog: Catalog, due: Sequence[PendingScope], job: FlushJob
) -> tuple[list[FlushTask], list[ScopeReport]]:
    """The tasks, and the scopes that wait for the end of a move or whose floor cannot be read. A table that was
    dropped meanwhile has none."""
    flush, clock = warehouse.settings.flush, CarriedClock.of(warehouse.clock)
    tasks, held = [], []
    _read_ahead(warehouse, due)
    for one in due:
        table = catalog.tables.get(one.scope.table)
        if table is None or table.log_id != one.table.log_id or table.dropping:
            continue
        try:
            target = warehouse.target_of(catalog, table, one.scope.user)
            warehouse.check_open(catalog, table, one.scope.user)
        except (Conflict, Corrupt) as error:
            held.append(failed_report(warehouse.bare_target(catalog, table, one.scope.user), "flush", error, clock()))
            continue
        work = (one.rows, one.end, job.job_id, flush.attempts, flush.large_scope_bytes, clock, job.plan_id)
        tasks.append(FlushTask(target, warehouse.state.uri, *work, warehouse.retention_of(table)))
    return tasks, held


def _read_ahead(warehouse: Warehouse, due: Sequence[PendingScope]) -> None:
    """Reads what the state knows of the scopes, each table's at once."""
    for some in grouped(due, lambda one: one.table.id).values():
        with suppress(Conflict, Corrupt):  # as each of its scopes will say
            warehouse.read_ahead(some[0].table, [one.scope.user for one in some])


def _refused(warehouse: Warehouse, tasks: Sequence[FlushTask]) -> tuple[Presence, Mapping[Scope, LakewardenError]]:
    """The storages, and the scopes whose storage is not present, is older than it was, or is newer than the log."""
    standings = {
        task.target.scope: LogStanding(task.target.floor, task.target.root, task.target.log_id, position_of(task.end))
        for task in tasks
        if task.target.floor is not None and task.target.root is not None
    }
    faults = floor_faults(warehouse.state, standings.values())
    present = Presence.of((task.target for task in tasks), proven=shown(standings.values()))
    older = {scope: faults[standing] for scope, standing in standings.items() if standing in faults}
    return present, older | {task.target.scope: error for task in tasks if (error := present.why_not(task.target)) is not None}


def _noted(tasks: Sequence[FlushTask], reports: Sequence[ScopeReport], now: datetime) -> list[ScopeReport]:
    """The reports; those whose scopes could not be recorded on the floors become failed, and their rows stay in the log."""
    pairs = [(task.target, report) for task, report in zip(tasks, reports, strict=True)]
    positions = {task.target.floor.table_id: position_of(task.end) for task in tasks if task.target.floor is not None}
    found = ((target, known_of(target, report, now)) for target, report in pairs)
    unnoted = raise_floors([FloorNote(target, known) for target, known in found if known is not None], positions)
    return [unnoted.judged(target, report, now) for target, report in pairs]


def _settle(
    warehouse: Warehouse, views: Mapping[str, LogView], tasks: Sequence[FlushTask], reports: Sequence[ScopeReport], reach: Reach
) -> None:
    """Settles each table's log for the scopes that are in their Delta tables; those that failed keep their rows."""
    settled: dict[str, dict[str, int]] = defaultdict(dict)
    for task, report in zip(tasks, reports, strict=True):
        if report.fault is None:
            settled[task.target.log_id][task.pending.user] = task.end
    kept = {task.target.log_id: task.kept_seconds for task in tasks}
    for log_id, marks in settled.items():
        settle_log(warehouse, views[log_id], marks, reach, keep=kept[log_id])


def settle_log(
    warehouse: Warehouse, view: LogView, marks: Mapping[str, int], reach: Reach = no_faults, *, keep: bool | float = True
) -> None:
    """Settles a log, which the job has open, up to the `_seq` to which each user's rows are durably in their Delta tables.
    `keep` as in `TableLog.settle`."""
    warehouse.logs.opened(view.log_id).settle(view, marks, keep=keep, reach=reach)


def forget_expired(warehouse: Warehouse, catalog: Catalog, views: Mapping[str, LogView]) -> None:
    """Removes history that was kept for subscribers long enough."""
    for table in catalog.tables.values():
        if table.log_id in views:
            warehouse.log(table).forget_expired(views[table.log_id], warehouse.retention_of(table))


# Before rows leave the log, checks that the files that hold them exist, with the size that their commit names.
#
# A process need not check acknowledged writes of its own. If another commit has settled rows that the log
# still holds, the state of its files is unknown: a power cut may have kept the commit and damaged what it names,
# or a user may have deleted them. So those files are checked: by a stat on a disk, by a request each on an object store.


def check_settled(table: ScopeTable, first_seq: int) -> None:
    """Call this when the table claims to hold rows of the log from `first_seq` on.

    Raises:
        Corrupt: a file that may hold some of them is missing, or has another size.
        Conflict: the table was changed meanwhile, and no longer needs that file.
    """
    store = open_store(table.location)
    for file in table.files():
        if "://" in file.path or (file.max_seq is not None and file.max_seq < first_seq):
            continue
        if not store.is_whole(file.path, file.size):
            if CommitLog(store).has(table.version + 1):
                raise Conflict(f"{table.uri} was committed to while its files were checked; try again")
            raise Corrupt(
                f"{table.uri}: version {table.version} needs the file {file.path}, which is missing or does not have its"
                f" {file.size} bytes: rows that a flush took from the write log are not in the table, and stay in the log;"
                " lakewarden repair brings them back"
            )
