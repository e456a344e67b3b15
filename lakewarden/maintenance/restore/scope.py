"""Restore: puts a scope's rows back to an older version, by a new commit on top: no history is lost.

The rows come back, but never an older schema: the table has the newest columns afterwards. The watermark of the write log
stays where it is, so that no row is flushed a second time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from lakewarden.base.clock import Clock, NewId
from lakewarden.base.faults import Reach, no_faults
from lakewarden.base.scope import Scope, TableName
from lakewarden.catalog.model import Table
from lakewarden.catalog.report import ScopePlan, ScopeReport
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.commit_log.actions import CommitChange
from lakewarden.delta.commit_log.stamp import CommitStamp
from lakewarden.delta.manifest import write_manifest
from lakewarden.delta.parquet.files import DataFile, NewFile
from lakewarden.delta.parquet.schema import version_of
from lakewarden.delta.past import in_utc
from lakewarden.delta.reading.past import missing, versions_left
from lakewarden.delta.scope import existing_table, open_scope
from lakewarden.delta.table import ScopeTable
from lakewarden.delta.timeline import DatedLog, Timeline, read_timeline
from lakewarden.errors import Conflict, InvalidArgument, NotFound, Unsupported
from lakewarden.maintenance.plans.scope_work import ScopeWork, check_fresh, unmoved
from lakewarden.maintenance.plans.still_planned import check_version, planned_table
from lakewarden.maintenance.restore import RestoreOptions
from lakewarden.maintenance.restore.files import RESTORE, copied_apart, difference, written_again
from lakewarden.maintenance.rewrite import discard
from lakewarden.storage.open import open_store
from lakewarden.storage.steps import Steps


def check_restore(options: RestoreOptions, table: Table) -> None:
    """Raises InvalidArgument: not exactly one of the two, or a version of a USER table without a user."""
    if (options.version is None) == (options.timestamp is None):
        raise _without_target(table.name)
    if options.version is not None and options.user is None and table.type == "USER":
        raise InvalidArgument(
            f"{table.name} is a USER table and each scope has its own versions: name the user, or restore by timestamp"
        )


def _without_target(what: TableName | Scope) -> InvalidArgument:
    return InvalidArgument(
        f"restore {what}: name either a version to go back to (`version`, as --version 3; the history lists them) or a time"
        " (`timestamp`, as --timestamp 2026-11-21T08:30:00Z)"
    )


@dataclass(frozen=True, kw_only=True)
class RestoreWork(ScopeWork):
    """`adds` are added and `removes` removed; `to` is the version whose rows result."""

    operation = "restore"

    to: int = 0
    adds: tuple[NewFile, ...] = ()
    removes: tuple[DataFile, ...] = ()
    watermark: int | None = None
    """The watermark that the commit sets, to drop pending rows; None leaves it as it is."""
    rewritten: ScopeTable | None = field(default=None, repr=False, compare=False)
    """The restored version, where its files have to be written again: `adds` are its files."""

    def run(self, *, job_id: str, clock: Clock, new_id: NewId, reach: Reach = no_faults) -> Steps[ScopeReport]:
        """Makes one strict commit, after a last check that every file that comes back exists.

        Raises:
            Conflict: the table moved on since the plan was made; nothing was changed.
            NotFound: a file was lost since the plan was made; nothing was changed.
        """
        if self.nothing:
            return self.skipped(self.nothing)
        table = unmoved(self, clock())
        # Looked at again right before the commit: a vacuum since the plan may have deleted some of them.
        present = frozenset(found.key for found in open_store(self.target.location).list(""))
        if lost := missing(self.adds, present):
            raise NotFound(
                f"restore {self.target.scope}: {len(lost)} files of version {self.to} vanished since the plan: {lost[0]}"
            )
        reach("after-read")
        check_fresh(self, clock())  # before rows lie there again
        again = self.rewritten
        adds = copied_apart(table, self.adds, new_id) if again is None else written_again(self, again, clock, new_id)
        now = clock()
        # Left as it is: rows that were flushed before must not be flushed again on top of the old state
        # (docs/decisions/0005-strict-commits.md).
        watermark = {} if self.watermark is None else {self.target.app_id: self.watermark}
        metrics, schemas = _metrics(adds, self.removes), self.target.schemas
        change = CommitChange(_stamp(job_id, self.parameters, metrics), watermark, adds=adds, removes=self.removes)
        try:
            made = yield from table.commit(change, since=self.planned_at, now=now, schemas=schemas, reach=reach)
        except Conflict:
            # Files of the old version lay there before and are not ours to delete.
            returning = {file.path for file in self.adds}
            discard(self.target, (file for file in adds if file.path not in returning))
            raise
        reach("after-commit")
        snapshot = table.snapshot(self.target.app_id).after(made)
        write_manifest(self.target, snapshot, now=now)
        reach("after-manifest")
        return self.done(snapshot.state, metrics, _names(adds, self.removes), clock())


def plan_restore(target: ScopeTarget, options: RestoreOptions, *, now: datetime) -> RestoreWork:
    """Plans which files and rows are added and removed.

    Raises:
        InvalidArgument: not exactly one of version and timestamp.
        NotFound: the version does not exist, no version did at that time, or its files were vacuumed; says which versions work.
        Unsupported: another writer's columns, deletion vectors or partitions are in the way.
    """
    if (options.version is None) == (options.timestamp is None):
        raise _without_target(target.scope)
    return _plan_from(target, options, existing_table(target), now)


def replan_restore(
    target: ScopeTarget, options: RestoreOptions, planned: ScopePlan, plan_id: str, *, now: datetime
) -> RestoreWork:
    """Plans again, to the planned version, on the same version; or on the flush that its apply started with.

    Raises:
        Moved: the table is at another version.
        NotFound, Unsupported: as `plan_restore`.
    """
    table = planned_table(target, planned)
    check_version(table, planned, plan_id)
    to = RestoreOptions(version=int(planned.parameters["version"]), discard_to=options.discard_to)
    return replace(_plan_from(target, to, table, now), parameters=planned.parameters)


def _plan_from(target: ScopeTarget, options: RestoreOptions, table: ScopeTable, now: datetime) -> RestoreWork:
    # Another writer's columns are replaced with every file; ours have to be able to take rows.
    if not _foreign(target, table):
        table.check_takes_rows(target.schema)
        table.check_plain()
    _check(target, table)
    listing = open_store(target.location).list("")
    timeline = read_timeline(open_store(target.location), table.version, DatedLog(listing))
    present = frozenset(found.key for found in listing)
    to = _version(target, table, timeline, options, present)
    source = open_scope(target, to) or table
    # Raises where the old version has columns that no version of the catalog knows.
    source.schema_version(target.schemas)
    _check(target, source)
    # Vacuumed, or lost: a restore that names them would make a version that cannot be read.
    if lost := missing(source.files(), present):
        raise _gone(target, table, timeline, present, f"{len(lost)} of the files of version {to} are missing")
    return _plan(target, options, table, source, timeline, now)


def _version(target: ScopeTarget, table: ScopeTable, timeline: Timeline, options: RestoreOptions, present: frozenset[str]) -> int:
    if options.version is not None:
        if not 0 <= options.version <= timeline.newest:
            raise _gone(target, table, timeline, present, f"there is no version {options.version}")
        if not timeline.has(options.version):
            raise _gone(
                target, table, timeline, present, f"version {options.version} was removed by a vacuum, or is no longer in the log"
            )
        return options.version
    assert options.timestamp is not None  # exactly one of the two is given
    moment = in_utc(options.timestamp)
    found = timeline.at(moment)
    if found is None or not timeline.has(found):
        what = f"no version from {moment.isoformat()} is left"
        raise _gone(target, table, timeline, present, what)
    return found


def _gone(target: ScopeTarget, table: ScopeTable, timeline: Timeline, present: frozenset[str], what: str) -> NotFound:
    """The refusal, with the range that still works."""
    return NotFound(f"restore {target.scope}: {what}; {versions_left(table, timeline, present)}")


def _check(target: ScopeTarget, table: ScopeTable) -> None:
    """Raises Unsupported: the version's rows are not simply those of its files."""
    divided = table.has_files and table.head.partition_columns != target.schema.partition_by
    if table.mapping != "none" or not ((table.plain and not divided) or _foreign(target, table)):
        raise Unsupported(
            f"restore {target.scope}: version {table.version} has another writer's column mapping, deletion vectors or"
            " partitions, which only that writer's own RESTORE can put back"
        )


def _foreign(target: ScopeTarget, table: ScopeTable) -> bool:
    """Whether another writer changed the columns in Delta itself; the restore then brings ours back, by replacing every file."""
    return version_of(table.head.schema, target.schemas) is None


def _plan(
    target: ScopeTarget, options: RestoreOptions, table: ScopeTable, source: ScopeTable, timeline: Timeline, now: datetime
) -> RestoreWork:
    change = difference(target, table, source, timeline)
    metrics = _metrics(change.adds, change.removes)
    # Dropping what the table has settled already needs no commit.
    discards = options.discard_to is not None and options.discard_to > (table.watermark(target.app_id) or -1)
    requested = {} if options.timestamp is None else {"timestamp": in_utc(options.timestamp).isoformat(timespec="milliseconds")}
    changes = change.adds or change.removes or change.columns or discards or options.always
    again = "; the columns changed since, so the files are written again" if change.rewrites else ""
    return RestoreWork(
        target=target,
        planned_at=now,
        table=table,
        parameters={"version": str(source.version)} | requested | dict(change.parameters),
        nothing="" if changes else f"it is already in the state of version {source.version}",
        summary=(
            f"back to version {source.version}: adds {len(change.adds)} files with {metrics['rows_added']} rows,"
            f" removes {len(change.removes)} files with {metrics['rows_removed']} rows{again}"
        ),
        metrics=metrics,
        files=_names(change.adds, change.removes),
        to=source.version,
        adds=change.adds,
        removes=change.removes,
        watermark=options.discard_to if discards else None,
        rewritten=source if change.rewrites else None,
    )


def _metrics(adds: Iterable[NewFile], removes: Iterable[DataFile]) -> dict[str, int]:
    added, removed = tuple(adds), tuple(removes)
    return {
        "files_added": len(added),
        "files_removed": len(removed),
        "bytes_added": sum(file.size for file in added),
        "bytes_removed": sum(file.size for file in removed),
        "rows_added": sum(file.rows for file in added),
        "rows_removed": sum(file.rows or 0 for file in removed),
    }


def _names(adds: Iterable[NewFile], removes: Iterable[DataFile]) -> tuple[str, ...]:
    return (*(f"+{file.path}" for file in adds), *(f"-{file.path}" for file in removes))


def _stamp(job_id: str, parameters: Mapping[str, str], metrics: Mapping[str, int]) -> CommitStamp:
    """Metrics under the names of Delta's own RESTORE."""
    native = {
        "numRestoredFiles": metrics["files_added"],
        "numRemovedFiles": metrics["files_removed"],
        "restoredFilesSize": metrics["bytes_added"],
        "removedFilesSize": metrics["bytes_removed"],
        "numRestoredRows": metrics["rows_added"],
        "numRemovedRows": metrics["rows_removed"],
    }
    return CommitStamp(job_id, RESTORE, dict(parameters), native)
