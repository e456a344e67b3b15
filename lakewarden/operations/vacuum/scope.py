"""Vacuum: deletes the files that no version inside the retention needs, and the log entries that no reader can use.

What stays, whatever a writer's clock said:

- every file of every version that was the newest at some moment since the horizon (`now` less the retention), by its
  writer's clock or by the store's, and of the versions in `keep_versions`; so every live file too;
- the change files of the commits after the oldest of these versions, for readers of Delta's change data feed;
- a file that no commit names, until it is older than the horizon *and* than a day: its writer may still be about to
  commit it. Our own writers commit strictly, so one that wrote before the horizon's commit can't commit after it;
- in `_files/`, the files that rows refer to, in the newest version, in those in `keep_versions` and in the log; and files
  newer than both;
- a commit that was never given its name, until it is as old as that (other unfinished writes: storage/leftovers.py);
- `manifest.json`, and whatever else is not a Parquet file or is below a name that begins with `_` or `.`, but `_change_data/`.

The horizon is committed first, strictly (VACUUM START), and deletes follow: deletes cannot be fenced, but a restore that
needs one of these files either came before, and then this commit is refused, or comes after, and sees it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import ClassVar

from lakewarden.catalog.model import TableSchema
from lakewarden.clock import Clock, NewId
from lakewarden.delta.commit_log.damage import has_readable_checkpoint
from lakewarden.delta.commit_log.stamp import CommitStamp
from lakewarden.delta.manifest import write_manifest
from lakewarden.delta.scope import open_scope
from lakewarden.delta.snapshot import Committed, Snapshot
from lakewarden.delta.table import ScopeTable
from lakewarden.delta.timeline import KEPT, OLDEST, VACUUM_END, VACUUM_START, Timeline, expired_log, read_timeline
from lakewarden.errors import Conflict, InvalidArgument, LakewardenError, Moved, NotFound
from lakewarden.faults import Reach, no_faults
from lakewarden.operations.pins import forget_expired, pinned_versions
from lakewarden.operations.plans.moved import commit_of
from lakewarden.operations.plans.scope_options import ScopeOptions
from lakewarden.operations.plans.scope_plan import ScopePlan, check_fresh, unmoved
from lakewarden.operations.plans.value import PlannedScope, plain_path
from lakewarden.operations.tags import tagged_versions
from lakewarden.operations.vacuum.blocked import blocked_scopes
from lakewarden.operations.vacuum.orphans import ORPHAN_AGE, orphans, table_files, unnamed_commits
from lakewarden.operations.vacuum.remains import remains_of
from lakewarden.operations.vacuum.unreferenced_files import hot_files, stray_files
from lakewarden.report import ScopeReport
from lakewarden.rows.files import without_name
from lakewarden.scope import Scope, TableName
from lakewarden.specs import Operation
from lakewarden.storage.leftovers import remove_emptied_directories, remove_leftovers
from lakewarden.storage.objects import StoredObject
from lakewarden.storage.open import open_store
from lakewarden.storage.steps import Steps
from lakewarden.target import ScopeTarget
from lakewarden.warehouse import Warehouse, find_table

SAFE_HOURS = 168
"""A week: below it, a reader of an older version or a slow writer may lose files while it runs."""

LOG_AGE = timedelta(days=30)
"""Delta's own `logRetentionDuration`: a writer paused for longer could commit a version number a second time."""

_SKEW = timedelta(days=1)
"""How far ahead a commit's time may be before a vacuum marks it: waiting for that time costs less than a commit."""

_MARKS = "; a commit is dated after today, so the retention of what it replaced counts from this vacuum"

_LONGEST = 24 * 365 * 1000
"""Hours; more than this retains everything, and would overflow a `datetime`."""

_ATTEMPTS = 10


@dataclass(frozen=True)
class VacuumOptions(ScopeOptions):
    """`retain_hours` in place of the table's retention; below 168 hours, its own included, `force` is required."""

    operation: ClassVar[Operation] = "vacuum"
    commits: ClassVar[str] = VACUUM_END

    retain_hours: float | None = None
    force: bool = False
    ignore_checks: bool = False
    """Whether to vacuum scopes that failed a check of their data, too."""
    keep_versions: tuple[int, ...] = ()
    keep_files: frozenset[str] = frozenset()
    """Paths that rows in the log refer to."""
    latest: datetime | None = None
    """The horizon is not later than this."""
    recorded: bool = False
    """Whether to commit the marks even if nothing is deleted."""

    def check(self, subject: Scope | TableName, schema: TableSchema, retention_hours: float) -> None:
        retention_of(subject, retention_hours, self)

    def refused(self, warehouse: Warehouse, targets: Sequence[ScopeTarget]) -> Mapping[Scope, LakewardenError]:
        """Those that failed a check."""
        return {} if self.ignore_checks else blocked_scopes(warehouse, targets)

    def completed(self, warehouse: Warehouse, targets: Sequence[ScopeTarget], now: datetime) -> Sequence[VacuumOptions]:
        """With what tags name, readers pin, and hot rows refer to. Versions pinned since `now` are inside the retention."""
        catalog = warehouse.catalog.read()
        names = {target.scope.table for target in targets}
        ids = {name: find_table(catalog, name).id for name in names}
        tagged = {name: tagged_versions(warehouse.state, table_id) for name, table_id in ids.items()}
        pinned = {name: pinned_versions(warehouse.state, table_id, now) for name, table_id in ids.items()}
        hot = {name: hot_files(warehouse, find_table(catalog, name)) for name in names}
        return [
            replace(
                self,
                keep_versions=(*self.keep_versions, *_of(tagged, target.scope), *_of(pinned, target.scope)),
                keep_files=hot[target.scope.table].get(target.scope.user, frozenset()),
            )
            for target in targets
        ]

    def finish(self, warehouse: Warehouse, targets: Sequence[ScopeTarget], now: datetime) -> None:
        catalog = warehouse.catalog.read()
        for name in {target.scope.table for target in targets}:
            forget_expired(warehouse.state, find_table(catalog, name).id, now)

    def plan(self, target: ScopeTarget, *, clock: Clock) -> VacuumPlan:
        return plan_vacuum(target, self, clock=clock)

    def replan(self, target: ScopeTarget, planned: PlannedScope, plan_id: str, *, clock: Clock) -> VacuumPlan:
        return replan_vacuum(target, self, planned, plan_id, clock=clock)


def _of(kept: Mapping[TableName, Mapping[str | None, tuple[int, ...]]], scope: Scope) -> tuple[int, ...]:
    return kept[scope.table].get(scope.user, ())


@dataclass(frozen=True, kw_only=True)
class VacuumPlan(ScopePlan):
    """Deletes `data_files` after the horizon's commit, then `log_files`, in this order, then `stray`. `files` are all of them."""

    data_files: tuple[StoredObject, ...] = ()
    log_files: tuple[str, ...] = ()
    stray: tuple[str, ...] = ()
    """Files of FILE columns that no row refers to."""
    marks: bool = False
    """Whether to commit the horizon although no data file is deleted: so that a later vacuum can count from this one, or history
    has it."""
    oldest: int = 0
    """The oldest version that an earlier vacuum left whole."""

    def run(self, *, job_id: str, clock: Clock, new_id: NewId) -> Steps[ScopeReport]:
        return run_vacuum(self, job_id=job_id, clock=clock, new_id=new_id)


def plan_vacuum(target: ScopeTarget, options: VacuumOptions, *, clock: Clock) -> VacuumPlan:
    """Plans exactly what a run removes.

    Raises:
        InvalidArgument: the retention is not a number of hours, or below 168 without `force`.
        NotFound: a version to keep no longer exists.
    """
    hours = retention_of(target.scope, target.retention_hours, options)
    now = clock()
    horizon = horizon_of(options, hours, now)
    table = open_scope(target)
    if table is None:
        return VacuumPlan(target=target, operation="vacuum", planned_at=now, version=None, nothing="nothing was flushed yet")
    listing = open_store(target.location).list("")
    timeline = read_timeline(open_store(target.location), table.version, listing)
    oldest = timeline.needed_since(horizon)
    kept = _kept(timeline, options.keep_versions, oldest)
    needed = _needed(table, timeline, oldest, kept)
    nobodys = min(horizon, now - ORPHAN_AGE)
    data = tuple(_removable(listing, needed, timeline, nobodys))
    strays = _stray(listing, table, target, options)
    stray = tuple(found.key for found in strays if found.modified <= nobodys)
    dated_ahead = not data and timeline.ahead(now + _SKEW) and _has_dead(listing, table, timeline)
    marks = dated_ahead or options.recorded
    unnamed = tuple(found.key for found in unnamed_commits(listing) if found.modified <= nobodys)
    readable = partial(has_readable_checkpoint, open_store(target.location), [found.key for found in listing])
    log = (*expired_log(listing, min(oldest, *kept, table.version), min(horizon, now - LOG_AGE), readable), *unnamed)
    deleted = {*(file.key for file in data), *log, *stray}
    left = [found for found in listing if found.key not in deleted]
    young = [found for found in strays if found.key not in deleted]
    return VacuumPlan(
        target=target,
        operation="vacuum",
        planned_at=now,
        version=table.version,
        table=table,
        state=table.state(target.app_id),
        parameters=_parameters(hours, horizon, oldest, kept),
        nothing="" if data or log or stray or marks else _all_needed(hours),
        summary=_summary(data, log, stray, hours, oldest) + (_MARKS if dated_ahead else ""),
        metrics={
            "files_deleted": len(data),
            "bytes_deleted": sum(file.size for file in data),
            "log_files_deleted": len(log),
            "stray_files_deleted": len(stray),
        },
        files=(*(file.key for file in data), *log, *map(without_name, stray)),
        data_files=data,
        log_files=log,
        stray=stray,
        marks=marks,
        oldest=timeline.oldest,
        remains=remains_of(left, young, table, timeline, kept=bool(kept), now=now),
    )


def replan_vacuum(
    target: ScopeTarget, options: VacuumOptions, planned: PlannedScope, plan_id: str, *, clock: Clock
) -> VacuumPlan:
    """Plans again with exactly these files. It commits its marks even if nothing is deleted, to show that it was applied.

    Raises:
        Moved: one of the files is needed again, or gone; or a vacuum moved the horizon.
        InvalidArgument, NotFound: as `plan_vacuum`.
    """
    latest = datetime.fromisoformat(planned.parameters["horizon"])
    plan = plan_vacuum(target, replace(options, latest=latest), clock=clock)
    oldest = int(planned.parameters[OLDEST])
    if not plan.oldest <= oldest <= int(plan.parameters.get(OLDEST, "-1")):
        raise Moved(f"the horizon of {planned.scope} moved since it was planned, by another vacuum or its retention; plan again")
    removable = {*(file.key for file in plan.data_files), *plan.log_files, *plan.stray}
    wanted = frozenset(planned.files)
    taken = {key for key in removable if plain_path(key) in wanted}
    kept = wanted - {plain_path(key) for key in taken}
    marks = [commit_of(target, planned, plan_id, mark) for mark in (VACUUM_START, VACUUM_END)] if kept else []
    if kept and (marks[0] is None or marks[1] is not None):  # between its marks, an apply that died left the rest
        raise Moved(
            f"{len(kept)} of the {len(planned.files)} files that a vacuum of {planned.scope} was to delete are needed again, or"
            f" gone: {min(kept)}; plan again"
        )
    return replace(
        plan,
        nothing="",
        summary=planned.summary,
        parameters=planned.parameters,
        metrics=planned.metrics,
        files=planned.files,
        data_files=tuple(file for file in plan.data_files if file.key in taken),
        log_files=tuple(key for key in plan.log_files if key in taken),
        stray=tuple(key for key in plan.stray if key in taken),
        marks=True,
        remains=None,  # what is not in the plan is left to the next vacuum
    )


def run_vacuum(
    plan: VacuumPlan,
    *,
    job_id: str,
    clock: Clock,
    new_id: NewId,  # noqa: ARG001  # every run's shape
    reach: Reach = no_faults,
) -> Steps[ScopeReport]:
    """Commits the horizon, deletes what the plan lists, commits the end.

    Raises:
        Conflict: the table moved on since the plan was made; nothing was changed.
    """
    remove_leftovers(plan.target.uri)
    if plan.nothing:
        return plan.skipped(plan.nothing)
    table = unmoved(plan, clock())
    state = plan.state or table.state(plan.target.app_id)
    if plan.data_files or plan.marks:
        yield from _commit_horizon(plan, table, job_id, clock())
        reach("after-start")
        yield plan.target.uri  # else a power cut could keep the deletes and lose the commits that allow them
        check_fresh(plan, clock())
        _delete(plan, reach)
        state = (yield from _commit_end(plan, job_id, clock, reach)).state
    if plan.log_files:
        yield plan.target.uri  # the checkpoint that replaces them may have been written by another process that synced nothing
    check_fresh(plan, clock())  # names in the log are used again if the table was recreated
    open_store(plan.target.location).delete((*plan.log_files, *plan.stray))
    reach("after-log")
    return plan.done(state, plan.metrics, plan.files, clock())


def retention_of(subject: Scope | TableName, default_hours: float, options: VacuumOptions) -> float:
    """Raises:
    InvalidArgument: as `plan_vacuum`.
    """
    hours = default_hours if options.retain_hours is None else options.retain_hours
    if not math.isfinite(hours) or hours < 0:
        raise InvalidArgument(f"vacuum {subject}: a retention of {hours} hours is not valid; give a number from 0 on")
    if hours < SAFE_HOURS and not options.force:
        raise InvalidArgument(
            f"vacuum {subject}: a retention of {hours:g} hours is below {SAFE_HOURS}: files that readers and"
            f" restores still use would be deleted. Retain {SAFE_HOURS} hours or more, or force it"
        )
    return float(hours)


def horizon_of(options: VacuumOptions, hours: float, now: datetime) -> datetime:
    """The moment before which what was superfluous is deleted."""
    return min(now - timedelta(hours=min(hours, _LONGEST)), options.latest or now)


def _kept(timeline: Timeline, wanted: Sequence[int], oldest: int) -> tuple[int, ...]:
    """The versions to keep that are older than the horizon's."""
    for version in wanted:
        if not timeline.has(version):
            raise NotFound(
                f"version {version} cannot be kept: it no longer exists; versions {timeline.oldest} to {timeline.newest} do"
            )
    return tuple(sorted({version for version in wanted if version < oldest}))


def _needed(table: ScopeTable, timeline: Timeline, oldest: int, kept: Sequence[int]) -> frozenset[str]:
    """The paths that were live at `oldest`, were added since, or are in kept versions; and those that say what changed since."""
    paths = timeline.added_after(oldest) | timeline.changed_after(oldest) | {file.path for file in table.files()}
    for version in {oldest, *kept} - {table.version}:
        if old := ScopeTable.open(table.location, version):
            paths |= {file.path for file in old.files()}
    return frozenset(paths)


def _stray(listing: Sequence[StoredObject], table: ScopeTable, target: ScopeTarget, options: VacuumOptions) -> list[StoredObject]:
    kept = (open_scope(target, version) for version in options.keep_versions)
    return stray_files(listing, target, [table, *(old for old in kept if old is not None)], options.keep_files)


def _removable(
    listing: Sequence[StoredObject], needed: frozenset[str], timeline: Timeline, orphans_before: datetime
) -> list[StoredObject]:
    young = {found.key for found in orphans(listing, timeline, needed) if found.modified > orphans_before}
    return [found for found in table_files(listing) if found.key not in needed and found.key not in young]


def _has_dead(listing: Sequence[StoredObject], table: ScopeTable, timeline: Timeline) -> bool:
    """Whether a commit names a file that exists and is not live."""
    live = frozenset(file.path for file in table.files())
    unnamed = orphans(listing, timeline, live)
    return any(found.key not in live for found in table_files(listing) if found not in unnamed)


def _parameters(hours: float, horizon: datetime, oldest: int, kept: Sequence[int]) -> dict[str, str]:
    return {
        "retention_hours": f"{hours:g}",
        "horizon": horizon.isoformat(timespec="milliseconds"),
        OLDEST: str(oldest),
        KEPT: ",".join(map(str, kept)),
    }


def _all_needed(hours: float) -> str:
    return f"a version of the last {hours:g} hours, or a writer, may need any of its files"


def _summary(data: Sequence[StoredObject], log: Sequence[str], stray: Sequence[str], hours: float, oldest: int) -> str:
    size = sum(file.size for file in data)
    files = f"{len(data)} files of {size} bytes, which no version of the last {hours:g} hours needs, are deleted"
    return f"{files}; version {oldest} is the oldest that still works" + "".join(
        (
            f"; {len(log)} expired log files are deleted" if log else "",
            f"; {len(stray)} files that no row refers to are deleted" if stray else "",
        )
    )


def _commit_horizon(plan: VacuumPlan, table: ScopeTable, job_id: str, now: datetime) -> Steps[None]:
    metrics = {"numFilesToDelete": plan.metrics["files_deleted"], "sizeOfDataToDelete": plan.metrics["bytes_deleted"]}
    yield from _mark(table, plan, CommitStamp(job_id, VACUUM_START, dict(plan.parameters), metrics), plan.planned_at, now)


def _delete(plan: VacuumPlan, reach: Reach) -> None:
    store = open_store(plan.target.location)
    half = len(plan.data_files) // 2
    store.delete(file.key for file in plan.data_files[:half])
    reach("during-deletes")
    store.delete(file.key for file in plan.data_files[half:])
    remove_emptied_directories(store.uri, (file.key for file in plan.data_files))
    reach("after-deletes")


def _commit_end(plan: VacuumPlan, job_id: str, clock: Clock, reach: Reach) -> Steps[Snapshot]:
    """Commits the second mark, on top of whatever others committed meanwhile."""
    metrics = {"numDeletedFiles": plan.metrics["files_deleted"], "sizeOfDeletedData": plan.metrics["bytes_deleted"]}
    stamp = CommitStamp(job_id, VACUUM_END, dict(plan.parameters) | {"status": "COMPLETED"}, metrics)
    for _ in range(_ATTEMPTS):
        looked = clock()
        table = open_scope(plan.target)
        if table is None:
            break
        now = clock()
        try:
            made = yield from _mark(table, plan, stamp, looked, now)
        except Conflict:
            continue
        reach("after-end")
        snapshot = table.snapshot(plan.target.app_id).after(made, (), (), now)
        write_manifest(plan.target, snapshot, now=now)
        return snapshot
    raise Conflict(f"the vacuum of {plan.target.scope} deleted its files, but others kept committing before its end was recorded")


def _mark(table: ScopeTable, plan: VacuumPlan, stamp: CommitStamp, since: datetime, now: datetime) -> Steps[Committed]:
    schema = table.schema_version(plan.target.schemas)
    return table.commit((), (), schema=schema, stamp=stamp, since=since, now=now, data_change=False)
