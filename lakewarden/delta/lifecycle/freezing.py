"""Freezes a scope's table in its place while it is moved: no flush or restore of ours commits to it.

The freeze is a commit, and every commit of a flush or a restore directly follows the snapshot that it was made from. So
each of them either came before, and is copied with the rest, or is refused, or finds the table frozen when it opens it
(docs/decisions/0014-moving-by-freezing.md). It names the write log that it is meant for: a table made anew at the same
place later has another.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakewarden.base.attempts import Attempts
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.commit_log.actions import CommitChange
from lakewarden.delta.commit_log.commits import CommitLog
from lakewarden.delta.commit_log.committing import Committer, may_lose
from lakewarden.delta.commit_log.stamp import MOVE, CommitStamp
from lakewarden.delta.lifecycle.create import create_table
from lakewarden.delta.scope import open_place, open_scope
from lakewarden.delta.table import ScopeTable
from lakewarden.errors import Conflict, Corrupt, InUse
from lakewarden.storage.open import open_store
from lakewarden.storage.steps import Steps

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
