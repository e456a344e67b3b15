"""A scope's table frozen in its place while it is moved: no flush and no restore of ours commits to it any more.

The freeze is a commit, and every commit of a flush or a restore directly follows the snapshot that it was made from. So
each of them either came before, and is copied with the rest, or is refused, or finds the table frozen when it opens it
(docs/decisions/0014-moving-by-freezing.md). It names the write log that it is meant for: a table made anew at the same
place later has another.
"""

from __future__ import annotations

from lakewarden.clock import Clock
from lakewarden.delta.commits import CommitLog, is_fence
from lakewarden.delta.create import create_table
from lakewarden.delta.place import place_of
from lakewarden.delta.stamp import MOVE, CommitStamp
from lakewarden.delta.table import ScopeTable
from lakewarden.errors import Conflict, Corrupt, InUse
from lakewarden.report import ScopeTarget

_PROPERTY = "lakewarden.frozen"
_ATTEMPTS = 100
"""Flushes that may each commit once more before they learn of the move."""


def is_frozen(table: ScopeTable, target: ScopeTarget) -> bool:
    return table.property(_PROPERTY) == target.app_id


def check_not_frozen(table: ScopeTable | None, target: ScopeTarget) -> None:
    """Raises:
    Conflict: the table was moved since the target was looked up, or is on its way.
    """
    if table is not None and is_frozen(table, target):
        raise Conflict(f"{target.scope} is being moved away from {target.uri}, or was just now: try again")


def freeze(target: ScopeTarget, *, job_id: str, clock: Clock) -> int:
    """Freezes the scope's table, which is made where there is none, and returns its last version before. May be repeated.

    Raises:
        Conflict: others kept on committing.
        InUse: another program has committed since it was frozen.
    """
    for _ in range(_ATTEMPTS):
        table = ScopeTable.open(target.location)
        try:
            if table is None:
                create_table(target, (), CommitStamp(job_id, MOVE), None, now=clock())
            elif is_frozen(table, target):
                return frozen_version(table)
            else:
                table.set_property(_PROPERTY, target.app_id, stamp=CommitStamp(job_id, MOVE, {"frozen": "true"}))
        except Conflict:
            continue
    raise Conflict(f"{target.scope} was committed to {_ATTEMPTS} times while it was to be frozen; try again")


def thaw(target: ScopeTarget, *, job_id: str) -> bool:
    """Lets the scope's table go again; False where it was not frozen.

    Raises:
        Conflict: others kept on committing.
    """
    for _ in range(_ATTEMPTS):
        table = ScopeTable.open(target.location)
        if table is None or not is_frozen(table, target):
            return False
        try:
            table.set_property(_PROPERTY, "", stamp=CommitStamp(job_id, MOVE, {"frozen": "false"}))
        except Conflict:
            continue
        return True
    raise Conflict(f"{target.scope} was committed to {_ATTEMPTS} times while it was to be let go; try again")


def is_left(table: ScopeTable) -> bool:
    """Whether a fence lies on top: the move has taken all that was there."""
    newest = CommitLog(place_of(table.location)).read(table.version)
    return newest is not None and is_fence(newest)


def frozen_version(table: ScopeTable) -> int:
    """The last version before the freeze. What of ours lies above changes no rows: the end of a vacuum, a compaction.

    Raises:
        Conflict: the scope was left meanwhile.
        InUse: another program has committed since it was frozen.
    """
    log = CommitLog(place_of(table.location))
    for version in range(table.version, -1, -1):
        commit = log.read(version)
        if commit is not None and is_fence(commit):
            raise Conflict(f"{table.uri} was left already")
        text = None if commit is None else commit.info.get("userMetadata")
        stamp = CommitStamp.parse(text if isinstance(text, str) else None)
        if stamp is None:
            raise InUse(
                f"{table.uri}: another program committed version {version} after the scope was frozen for its move, which would"
                " stay behind: keep what it wrote, remove that commit, and stop that program"
            )
        if stamp.operation == MOVE:
            return version - 1
    raise Corrupt(f"{table.uri} is frozen, and no commit of its log has frozen it")
