"""Adds columns to a scope's Delta table by a commit without files: the files that lack them have NULL there, for every reader.

Without it, the next flush or direct write brings new columns, and writes all files again. It still does where the files do
not read alike under the new schema: after a rename, or where a column has a value for older rows.
"""

from __future__ import annotations

from lakewarden.catalog.model import TableSchema
from lakewarden.delta.commit_log.committing import Committer, TooLate
from lakewarden.delta.commit_log.plain import is_plain_head
from lakewarden.delta.commit_log.stamp import CommitStamp
from lakewarden.delta.lifecycle.beginning import begin_table
from lakewarden.delta.manifest import write_manifest
from lakewarden.delta.parquet.schema import reads_alike, version_of
from lakewarden.delta.table import ScopeTable
from lakewarden.errors import Conflict
from lakewarden.storage.steps import Steps
from lakewarden.target import ScopeTarget

ADD_COLUMNS = "ADD COLUMNS"
"""Delta's own name for the operation."""

_ATTEMPTS = 20


def widen_table(target: ScopeTarget, by: Committer) -> Steps[None]:
    """Commits the columns that were added since the table's newest version. May be repeated, and by several processes at once.

    Raises:
        Conflict: others kept committing; it is being moved, or swept; or it was looked up too long ago (`TooLate`).
        Corrupt: as `open_scope`.
    """
    for _ in range(_ATTEMPTS):
        table = yield from begin_table(target, by)
        there = _to_widen(table, target)
        if there is None:
            return
        try:
            yield from _widen(table, there, target, by)
        except TooLate:
            raise
        except Conflict:
            continue
        return
    raise Conflict(f"{target.scope} was committed to {_ATTEMPTS} times while columns were to be added; try again")


def _to_widen(table: ScopeTable, target: ScopeTarget) -> TableSchema | None:
    """The schema version of the table, if only its columns have to change."""
    there = version_of(table.head.schema, target.schemas)
    if there is None or there is target.schema or not is_plain_head(table.head):
        return None
    return there if reads_alike(there, target.schema) else None


def _widen(table: ScopeTable, there: TableSchema, target: ScopeTarget, by: Committer) -> Steps[None]:
    now, known = by.clock(), {column.id for column in there.columns}
    added = ", ".join(column.name for column in target.schema.columns if column.id not in known)
    stamp = CommitStamp(by.job_id, ADD_COLUMNS, {"columns": added}, app_id=target.app_id, user=target.scope.user)
    made = yield from table.widen(target.schema, stamp=stamp, since=by.since, now=now)
    write_manifest(target, table.snapshot(target.app_id).after(made, (), (), now), now=now)
