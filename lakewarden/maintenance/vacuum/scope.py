"""Vacuum: deletes the files that no version inside the retention needs, and the log entries that no reader can use.

What stays: maintenance/vacuum/removable.py. The horizon is committed first, strictly (VACUUM START), and deletes follow: deletes
cannot be fenced, but a restore that needs one of these files either came before, and then this commit is refused, or comes
after, and sees it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from lakewarden.base.clock import Clock, NewId, to_millis
from lakewarden.base.faults import Reach, no_faults
from lakewarden.base.quantities import in_units
from lakewarden.catalog.report import Remains, ScopePlan, ScopeReport
from lakewarden.catalog.state.floor_entries import NEVER
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.commit_log.actions import CommitChange
from lakewarden.delta.commit_log.stamp import CommitStamp
from lakewarden.delta.commit_log.version import Snapshot
from lakewarden.delta.features import check_features
from lakewarden.delta.manifest import write_manifest
from lakewarden.delta.scope import open_scope
from lakewarden.delta.table import ScopeTable
from lakewarden.delta.timeline import KEPT, OLDEST, VACUUM_END, VACUUM_START, DatedLog, read_timeline
from lakewarden.errors import Conflict, Moved, Unsupported
from lakewarden.maintenance.plans.scope_work import ScopeWork, check_fresh, unmoved
from lakewarden.maintenance.plans.still_planned import commit_of
from lakewarden.maintenance.plans.value import plain_path
from lakewarden.maintenance.vacuum import VacuumOptions
from lakewarden.maintenance.vacuum.removable import Contents, Removable, horizon_of, removable, retention
from lakewarden.maintenance.vacuum.unreferenced_files import orphans
from lakewarden.storage.disk import remove_emptied_directories, remove_leftovers
from lakewarden.storage.objects import StoredObject
from lakewarden.storage.open import open_store
from lakewarden.storage.steps import Steps
from lakewarden.tables.rows.files import without_name

# What a vacuum leaves for a later one: since when the oldest of it is superfluous, so that none comes in vain before.


def remains_of(contents: Contents, found: Removable, now: datetime) -> Remains:
    """What is left, by the listing without what is deleted now. A moment in the future counts as now."""
    timeline, live = contents.timeline, contents.live
    left = [file for file in contents.files if file.key not in found.deleted]
    lost = orphans(left, timeline, live)
    replaced = {file.key for file in left} - live - {file.key for file in lost}
    removals = [(entry.since, replaced & (entry.removes | entry.changes)) for entry in timeline.entries]
    unexplained = replaced.difference(*(keys for _, keys in removals))
    unnamed = (commit for commit in contents.unnamed if commit.key not in found.deleted)
    waiting = [to_millis(each.modified) for each in (*lost, *unnamed, *found.young)]
    # Files whose removal no commit dates, or that a tag or a lease keeps, which may end at any time, may be superfluous at any
    # moment: the next vacuum looks.
    times = [0] if unexplained or (found.kept and replaced) else [since for since, keys in removals if keys]
    log = contents.log.superfluous_since(found.log)
    return Remains(
        dead_since=min([*waiting, *times, to_millis(now)]) if waiting or times else NEVER,
        log_since=NEVER if log is None else to_millis(log),
        dead_bytes=sum(file.size for file in left if file.key in replaced),
    )


_SKEW = timedelta(days=1)
"""How far ahead a commit's time may be before a vacuum marks it: waiting for that time costs less than a commit."""

_MARKS = "; a commit is dated after today, so the retention of what it replaced counts from this vacuum"

_ATTEMPTS = 10


@dataclass(frozen=True, kw_only=True)
class VacuumWork(ScopeWork):
    """Deletes `data_files` after the horizon's commit, then `log_files`, in this order, then `stray`. `files` are all of them."""

    operation = "vacuum"

    data_files: tuple[StoredObject, ...] = ()
    log_files: tuple[str, ...] = ()
    stray: tuple[str, ...] = ()
    """Files of FILE columns that no row refers to."""
    marks: bool = False
    """Whether to commit the horizon although no data file is deleted: so that a later vacuum can count from this one, or history
    has it."""
    oldest: int = 0
    """The oldest version that an earlier vacuum left whole."""

    def run(self, *, job_id: str, clock: Clock, new_id: NewId, reach: Reach = no_faults) -> Steps[ScopeReport]:
        """Commits the horizon, deletes what the plan lists, commits the end.

        Raises:
            Conflict: the table moved on since the plan was made; nothing was changed.
        """
        remove_leftovers(self.target.uri)
        if self.nothing:
            return self.skipped(self.nothing)
        table = unmoved(self, clock())
        state = self.state or table.state(self.target.app_id)
        if self.data_files or self.marks:
            # First the commit, then the deletions: a restore that needs one of the files came before and makes this commit lose,
            # or comes after and sees it.
            yield from _commit_horizon(self, table, job_id, clock())
            reach("after-start")
            yield self.target.uri  # else a power cut could keep the deletes and lose the commits that allow them
            check_fresh(self, clock())
            _delete(self, reach)
            # Marks the end, so that a plan which is applied again knows that nothing is left to do.
            state = (yield from _commit_end(self, job_id, clock, reach)).state
        if self.log_files:
            yield self.target.uri  # the checkpoint that replaces them may be of another process, which synced nothing
        check_fresh(self, clock())  # names in the log are used again if the table was recreated
        # In the plan's order: a crash in between leaves a log that can still be opened.
        open_store(self.target.location).delete((*self.log_files, *self.stray))
        reach("after-log")
        return self.done(state, self.metrics, self.files, clock())


def plan_vacuum(target: ScopeTarget, options: VacuumOptions, *, now: datetime) -> VacuumWork:
    """Plans exactly what a run removes.

    Raises:
        InvalidArgument: the retention is not a number of hours, or below 168 without `force`.
        NotFound: a version to keep no longer exists.
    """
    hours = retention(options, target.scope, target.retention_hours)
    horizon = horizon_of(hours, now, options.latest)
    table = open_scope(target)
    if table is None:
        return VacuumWork(target=target, planned_at=now, nothing="nothing was flushed yet")
    check_features(table.head, table.uri)
    # Once: it says which files exist, how old they are by the store, and which commits there are.
    listing = open_store(target.location).list("")
    log = DatedLog(listing)
    timeline = read_timeline(open_store(target.location), table.version, log)
    contents = Contents(target, table, timeline, listing, log)
    found = removable(contents, horizon, now, versions=options.keep_versions, files=options.keep_files)
    # Without marks a commit that is dated years ahead would keep its files for years
    # (docs/decisions/0022-vacuum-and-clocks.md).
    dated_ahead = not found.data and timeline.ahead(now + _SKEW) and contents.has_dead()
    marks = dated_ahead or options.recorded
    needed = f"a version of the last {hours:g} hours, or a writer, may need any of its files"
    return VacuumWork(
        target=target,
        planned_at=now,
        table=table,
        parameters=_parameters(hours, horizon, found),
        nothing="" if found.data or found.log or found.stray or marks else needed + _vectors(table),
        summary=_summary(found, hours) + (_MARKS if dated_ahead else ""),
        metrics={
            "files_deleted": len(found.data),
            "bytes_deleted": sum(file.size for file in found.data),
            "log_files_deleted": len(found.log),
            "stray_files_deleted": len(found.stray),
        },
        files=(*(file.key for file in found.data), *found.log, *map(without_name, found.stray)),
        data_files=found.data,
        log_files=found.log,
        stray=found.stray,
        marks=marks,
        oldest=timeline.oldest,
        remains=remains_of(contents, found, now),
    )


def _vectors(table: ScopeTable) -> str:
    """What else is to say of a table in which nothing is to do."""
    try:
        table.check_plain()
    except Unsupported as error:
        return f"; {error.message}"
    return ""


def replan_vacuum(target: ScopeTarget, options: VacuumOptions, planned: ScopePlan, plan_id: str, *, now: datetime) -> VacuumWork:
    """Plans again with exactly these files. It commits its marks even if nothing is deleted, to show that it was applied.

    Raises:
        Moved: one of the files is needed again, or gone; or a vacuum moved the horizon.
        InvalidArgument, NotFound: as `plan_vacuum`.
    """
    latest = datetime.fromisoformat(planned.parameters["horizon"])
    plan = plan_vacuum(target, replace(options, latest=latest), now=now)
    oldest = int(planned.parameters[OLDEST])
    if not plan.oldest <= oldest <= int(plan.parameters.get(OLDEST, "-1")):
        raise Moved(f"the horizon of {planned.scope} moved since it was planned, by another vacuum or its retention; plan again")
    removable = {*(file.key for file in plan.data_files), *plan.log_files, *plan.stray}
    wanted = frozenset(planned.files)
    # What is removable by now and was not planned stays: a plan deletes what it showed.
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


def _parameters(hours: float, horizon: datetime, found: Removable) -> dict[str, str]:
    return {
        "retention_hours": f"{hours:g}",
        "horizon": horizon.isoformat(timespec="milliseconds"),
        OLDEST: str(found.oldest),
        KEPT: ",".join(map(str, found.kept)),
    }


def _summary(found: Removable, hours: float) -> str:
    size = sum(file.size for file in found.data)
    files = f"{len(found.data)} files of {in_units(size)}, which no version of the last {hours:g} hours needs, are deleted"
    return f"{files}; version {found.oldest} is the oldest that still works" + "".join(
        (
            f"; {len(found.log)} expired log files are deleted" if found.log else "",
            f"; {len(found.stray)} files that no row refers to are deleted" if found.stray else "",
        )
    )


def _commit_horizon(plan: VacuumWork, table: ScopeTable, job_id: str, now: datetime) -> Steps[None]:
    metrics = {"numFilesToDelete": plan.metrics["files_deleted"], "sizeOfDataToDelete": plan.metrics["bytes_deleted"]}
    stamp = CommitStamp(job_id, VACUUM_START, dict(plan.parameters), metrics)
    yield from table.commit(CommitChange(stamp, data_change=False), since=plan.planned_at, now=now)


def _delete(plan: VacuumWork, reach: Reach) -> None:
    store = open_store(plan.target.location)
    half = len(plan.data_files) // 2
    store.delete(file.key for file in plan.data_files[:half])
    reach("during-deletes")
    store.delete(file.key for file in plan.data_files[half:])
    remove_emptied_directories(store.uri, (file.key for file in plan.data_files))
    reach("after-deletes")


def _commit_end(plan: VacuumWork, job_id: str, clock: Clock, reach: Reach) -> Steps[Snapshot]:
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
            made = yield from table.commit(CommitChange(stamp, data_change=False), since=looked, now=now)
        except Conflict:
            continue
        reach("after-end")
        snapshot = table.snapshot(plan.target.app_id).after(made)
        write_manifest(plan.target, snapshot, now=now)
        return snapshot
    raise Conflict(f"the vacuum of {plan.target.scope} deleted its files, but others kept committing before its end was recorded")
