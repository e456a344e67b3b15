"""Commits without files: a scope's table begins before it has rows, at version 0, or above a fence, where an earlier table was
dropped or erased; and columns are added to it before the next rows come.
"""

from __future__ import annotations

from lakewarden.base.attempts import Attempts
from lakewarden.catalog.model import TableSchema
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.commit_log.actions import CommitChange
from lakewarden.delta.commit_log.committing import Committer, may_lose
from lakewarden.delta.commit_log.stamp import CommitStamp
from lakewarden.delta.commit_log.version import first_snapshot
from lakewarden.delta.lifecycle.create import create_table
from lakewarden.delta.lifecycle.freezing import check_not_frozen
from lakewarden.delta.manifest import write_manifest
from lakewarden.delta.parquet.schema import version_of
from lakewarden.delta.scope import feed_to_set, open_scope, owner_property
from lakewarden.delta.table import ScopeTable, check_whole
from lakewarden.errors import Conflict
from lakewarden.storage.steps import Steps

CREATE = "CREATE TABLE"
"""Delta's own name for the operation."""

ADD_COLUMNS = "ADD COLUMNS"
"""As `CREATE`."""


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
    if table.is_swept:
        raise Conflict(f"the remains of an earlier table at {target.location} are being removed; try again")
    return not table.is_fenced


def _begin(table: ScopeTable | None, target: ScopeTarget, by: Committer) -> Steps[None]:
    now = by.clock()
    stamp = CommitStamp(by.job_id, CREATE, app_id=target.app_id, user=target.scope.user)
    if table is None:
        made = yield from create_table(target, CommitChange(stamp), since=by.since, now=now)
        write_manifest(target, first_snapshot(made, target.app_id), now=now)
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
