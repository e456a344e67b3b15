"""The states of a scope's table, each of which a commit brings: it begins, gets columns and rows, and is frozen for a move.

It begins before it has rows, at version 0, or above a fence, where an earlier table was dropped or erased; and columns are added
to it before the next rows come.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from lakewarden.base.attempts import Attempts
from lakewarden.base.clock import NewId, random_id, to_millis
from lakewarden.base.faults import Reach, no_faults
from lakewarden.catalog.model import TableSchema
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.commit_log.actions import CHANGE_DATA_FEED, CommitChange, TableHead, commit_text
from lakewarden.delta.commit_log.commits import CommitLog
from lakewarden.delta.commit_log.committing import Committer, held_still, may_lose
from lakewarden.delta.commit_log.kept_versions import CHAINS
from lakewarden.delta.commit_log.publish import publish
from lakewarden.delta.commit_log.stamp import MOVE, CommitStamp
from lakewarden.delta.commit_log.version import OwnCommit, Snapshot, first_snapshot
from lakewarden.delta.manifest import write_manifest
from lakewarden.delta.parquet.schema import delta_schema, version_of
from lakewarden.delta.scope import feed_to_set, open_place, open_scope, owner_property, properties_to_set
from lakewarden.delta.table import ScopeTable, check_whole
from lakewarden.errors import Conflict, Corrupt, InUse
from lakewarden.storage.open import open_store
from lakewarden.storage.steps import Steps

CREATE = "CREATE TABLE"
"""Delta's own name for the operation."""

ADD_COLUMNS = "ADD COLUMNS"
"""As `CREATE`."""

_CHECKPOINT_INTERVAL = 10
"""With delta-rs's default of 100, opening grows from 2 to 12 ms. On an object store each commit since the checkpoint costs an
opening two requests, and a checkpoint costs four requests and one for each commit in it."""

_LOG_DAYS = 30
"""Delta's own default; history and restore reach at least as far back as deleted files are kept."""


def create_table(
    target: ScopeTarget,
    change: CommitChange,
    *,
    since: datetime,
    now: datetime,
    new_id: NewId = random_id,
    reach: Reach = no_faults,
) -> Steps[Snapshot]:
    """Commits version 0: the table with the files that the change adds. `since` and `reach` are as in `ScopeTable.commit`.

    Raises:
        Conflict: another process created it meanwhile, or this took too long (`TooLate`); nothing was changed.
    """
    table_id = str(UUID(new_id(), version=4))
    head = TableHead(
        table_id,
        delta_schema(target.schema),
        _configuration(target),
        to_millis(now),
        partition_columns=target.schema.partition_by,
    )
    if target.change_data_feed:
        head = head.with_properties({CHANGE_DATA_FEED: "true"})
    change = replace(change, mode="ErrorIfExists", head=head, operation=CREATE)
    text = commit_text(change, None, now, new_id())
    yield from publish(target.location, 0, text, held_still(change.stamp, since, now), reach)
    return first_snapshot(OwnCommit(0, change, now, CHAINS.was_made(target.location, 0, text, "")), target.app_id)


def _configuration(target: ScopeTarget) -> dict[str, str]:
    """Returns the properties for other writers; Lakewarden's own vacuum follows the table's options."""
    retention_hours = target.retention_hours
    return owner_property(target) | {
        "delta.checkpointInterval": str(_CHECKPOINT_INTERVAL),
        "delta.deletedFileRetentionDuration": f"interval {retention_hours} hours",
        "delta.logRetentionDuration": f"interval {max(retention_hours, _LOG_DAYS * 24)} hours",
    }


def begin_table(target: ScopeTarget, by: Committer, *, columns: bool = False) -> Steps[ScopeTable]:
    """Opens the scope's table, which is begun where it does not exist. May be repeated, and by several processes at once.

    Args:
        columns: also adds the columns that the table lacks, unless files have to be written again for them: then the next flush
            or direct write brings both.

    Raises:
        Conflict: others kept committing; it is being moved, or swept; or it was looked up too long ago (`TooLate`).
        Corrupt: as `open_scope`.
    """
    attempts = Attempts(20, f"{target.scope} was committed to", "while its table was to begin or to get columns")
    while attempts.next():
        table = open_scope(target)
        check_not_frozen(table, target)
        check_whole(table, target.location)
        if table is None or not has_begun(table, target):
            step = _begin(table, target, by)
        elif columns and (there := _to_widen(table, target)) is not None:
            step = _widen(table, there, target, by)
        else:
            return table
        with may_lose():
            yield from step


def has_begun(table: ScopeTable, target: ScopeTarget) -> bool:
    """Whether it is not a fence. A table of others, which has files at least, is taken over by the first flush."""
    if table.has_files:
        return True
    _check_not_swept(table, target)
    return not table.is_fenced


def _check_not_swept(table: ScopeTable, target: ScopeTarget) -> None:
    if table.is_swept:
        raise Conflict(f"the remains of an earlier table at {target.location} are being removed; try again")


def _begin(table: ScopeTable | None, target: ScopeTarget, by: Committer) -> Steps[None]:
    now = by.clock()
    stamp = CommitStamp(by.job_id, CREATE, app_id=target.app_id, user=target.scope.user)
    if table is None:
        write_manifest(target, (yield from create_table(target, CommitChange(stamp), since=by.since, now=now)), now=now)
        return
    named = owner_property(target) | feed_to_set(table, target)
    made = yield from table.commit(CommitChange(stamp), since=by.since, now=now, schemas=target.schemas, properties=named)
    write_manifest(target, table.snapshot(target.app_id).after(made), now=now)


def _to_widen(table: ScopeTable, target: ScopeTarget) -> TableSchema | None:
    """The schema version of the table, if only its columns have to change."""
    there = version_of(table.head.schema, target.schemas)
    if there is None or there is target.schema or not table.can_be_kept:
        return None
    return there if table.keeps_files(target.schemas) else None


def _widen(table: ScopeTable, there: TableSchema, target: ScopeTarget, by: Committer) -> Steps[None]:
    now, known = by.clock(), {column.id for column in there.columns}
    added = ", ".join(column.name for column in target.schema.columns if column.id not in known)
    stamp = CommitStamp(by.job_id, ADD_COLUMNS, {"columns": added}, app_id=target.app_id, user=target.scope.user)
    made = yield from table.commit(CommitChange(stamp, operation=ADD_COLUMNS), since=by.since, now=now, schemas=target.schemas)
    write_manifest(target, table.snapshot(target.app_id).after(made), now=now)


# Rows come by a flush or a direct write: each opens the table, and commits once on top of what it saw, or begins it.


def open_for_rows(target: ScopeTarget, *, newest: bool = True) -> ScopeTable | None:
    """Opens the scope's table for a commit of rows; None where that begins it. `newest` as in `open_scope`.

    Raises:
        Conflict: it is being moved or swept; try again.
        Corrupt: as `open_scope`; or a torn commit is on top.
        Unsupported: another writer asks more of a commit, or of its rows, than can be kept here.
    """
    table = open_scope(target, newest=newest)
    check_not_frozen(table, target)
    check_whole(table, target.location)
    if table is not None:
        _check_not_swept(table, target)
        table.check_takes_rows(target.schema)
    return table


def commit_rows(
    table: ScopeTable | None,
    target: ScopeTarget,
    change: CommitChange,
    *,
    since: datetime,
    now: datetime,
    new_id: NewId = random_id,
    reach: Reach = no_faults,
) -> Steps[Snapshot]:
    """Commits on top of what `open_for_rows` returned, with the newest columns, and returns the version. Args and errors are
    those of `ScopeTable.commit`."""
    if table is None:
        return (yield from create_table(target, change, since=since, now=now, new_id=new_id, reach=reach))
    named, schemas = properties_to_set(table, target), target.schemas
    made = yield from table.commit(change, since=since, now=now, schemas=schemas, properties=named, new_id=new_id, reach=reach)
    return table.snapshot(target.app_id).after(made)


# A table is frozen in its place while it is moved: no flush or restore of ours commits to it.
#
# The freeze is a commit, and every commit of a flush or a restore directly follows the snapshot that it was made from. So
# each of them either came before, and is copied with the rest, or is refused, or finds the table frozen when it opens it
# (docs/decisions/0014-moving-by-freezing.md). It names the write log that it is meant for: a table made anew at the same
# place later has another.

_PROPERTY = "lakewarden.frozen"
"""The log's application id, the token of who set it, and the version that was frozen; `-` where it was let go again."""


@dataclass(frozen=True)
class _Mark:
    """What the property says. `token` is that of a lease: who has an older one leaves the table alone."""

    token: int = 0
    version: int | None = None


def _mark(table: ScopeTable, target: ScopeTarget) -> _Mark:
    app_id, _, rest = table.property(_PROPERTY).partition(" ")
    if app_id != target.app_id:
        return _Mark()
    token, _, version = rest.partition(" ")
    return _Mark(int(token), None if version == "-" else int(version))


def is_frozen(table: ScopeTable, target: ScopeTarget) -> bool:
    return _mark(table, target).version is not None


def check_not_frozen(table: ScopeTable | None, target: ScopeTarget) -> None:
    """Raises Conflict: the table was moved since the target was looked up, or is on its way."""
    if table is not None and is_frozen(table, target):
        raise Conflict(f"{target.scope} is being moved away from {target.uri}, or was just now: try again")


def freeze(target: ScopeTarget, token: int, by: Committer) -> Steps[int]:
    """Freezes the scope's table, which is made where there is none, and returns its last version before. May be repeated.

    Raises:
        Conflict: others kept on committing; or a process with a newer token was here; or it was looked up too long ago.
        InUse: another program has committed since it was frozen.
    """
    # flushes may each commit once more before they learn of the move
    attempts = Attempts(100, f"{target.scope} was committed to", "while it was to be frozen")
    while attempts.next():
        table = open_scope(target)
        mark = _Mark() if table is None else _taken(table, target, token)
        if table is not None and mark.version is not None and mark.token == token:
            return frozen_version(table, target)
        with may_lose():
            if table is None:
                yield from create_table(target, CommitChange(CommitStamp(by.job_id, MOVE)), since=by.since, now=by.clock())
            else:
                version = table.version if mark.version is None else mark.version
                yield from _set(table, target, token, str(version), by)


def thaw(target: ScopeTarget, token: int, by: Committer) -> Steps[bool]:
    """Lets the scope's table go again; False where it was not frozen.

    Raises:
        Conflict: others kept on committing; or a process with a newer token was here; or it was looked up too long ago.
    """
    attempts = Attempts(100, f"{target.scope} was committed to", "while it was to be let go")
    while attempts.next():
        table = open_place(target)
        if table is None or _taken(table, target, token).version is None:
            return False
        with may_lose():
            yield from _set(table, target, token, "-", by)
            return True


def frozen_version(table: ScopeTable, target: ScopeTarget) -> int:
    """The version that was frozen. What of ours is above it changes no rows: the end of a vacuum, a compaction.

    Raises:
        InUse: another program has committed since it was frozen.
    """
    frozen = _mark(table, target).version
    if frozen is None:
        raise Corrupt(f"{table.uri} is not frozen any more")
    log = CommitLog(open_store(table.location))
    for version in range(frozen + 1, table.version + 1):
        commit = log.read(version)
        if commit is None or CommitStamp.of(commit) is None:
            raise InUse(
                f"{table.uri}: another program committed version {version} after the scope was frozen for its move, which would"
                " stay behind: keep what it wrote, remove that commit, and stop that program"
            )
    return frozen


def _taken(table: ScopeTable, target: ScopeTarget, token: int) -> _Mark:
    """The mark, if it is ours to change. The commit that changes it directly follows this look.

    Raises:
        Conflict: a process with a newer token was here, or the scope was left already: a fence is on top.
    """
    mark = _mark(table, target)
    if mark.token > token or (mark.version is not None and table.is_fenced):
        raise Conflict(f"the move of {target.scope} was taken over by another process meanwhile; nothing more is changed")
    return mark


def _set(table: ScopeTable, target: ScopeTarget, token: int, version: str, by: Committer) -> Steps[None]:
    change = CommitChange(CommitStamp(by.job_id, MOVE, {"frozen": version}), operation="SET TBLPROPERTIES")
    frozen = {_PROPERTY: f"{target.app_id} {token} {version}"}
    yield from table.commit(change, since=by.since, now=by.clock(), properties=frozen)
