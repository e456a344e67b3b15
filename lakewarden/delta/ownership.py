"""Checks whose rows a scope's table holds: a directory can be copied to a wrong place.

The table says it in a property, which is read whenever it is opened. For a table that is older than this property,
its commits say it.
"""

from __future__ import annotations

from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.commit_log.stamp import CommitStamp
from lakewarden.delta.table import ScopeTable
from lakewarden.delta.timeline import walk
from lakewarden.errors import Corrupt
from lakewarden.storage.open import open_store

PROPERTY = "lakewarden.scope"


def owner_of(target: ScopeTarget) -> str:
    """Returns the property of the scope's table: its log's id, and the user's keyed hash. Empty when it has none."""
    return f"{target.app_id.rpartition('/')[2]} {target.mark}" if target.mark else ""


def check_owner(table: ScopeTable, target: ScopeTarget) -> None:
    """Checks the owner without a request. A table without the property or without rows may belong to any scope.

    Raises:
        Corrupt: the table is another scope's.
    """
    expected, said = owner_of(target), table.property(PROPERTY)
    if expected and said and said != expected and table.has_files:
        raise Corrupt(
            f"the table at {target.uri} belongs to another scope, not to {target.scope}: its directory was copied there;"
            f" lakewarden repair {target.scope.table} moves it aside"
        )


def owner_to_set(table: ScopeTable, target: ScopeTarget) -> tuple[str, str] | None:
    """Returns the property for a commit on the scope's table, if the table does not have it yet.

    Raises:
        Corrupt: its commits say that it belongs to another scope.
    """
    owner = owner_of(target)
    if not owner or table.property(PROPERTY) == owner:
        return None
    if wrong := copied_from(table, target):
        raise Corrupt(f"the table at {target.uri} was copied there: {wrong}")
    return PROPERTY, owner


def copied_from(table: ScopeTable, target: ScopeTarget) -> str:
    """Returns where the table came from, if its last flush was another scope's; empty when it is `target`'s own.

    A dropped or erased table, and one that no flush of ours has written to, belongs to no scope.
    """
    stamp = last_flush(table)
    if stamp is None:
        return ""
    if stamp.app_id != target.app_id:
        return f"its last flush was one of {stamp.app_id}, and this is {target.app_id}"
    return "" if stamp.user == target.scope.user else f"its last flush was one of user {stamp.user!r}"


def begun_anew(table: ScopeTable, target: ScopeTarget) -> str:
    """Returns the other write log of the same warehouse whose rows it holds: that of a newer table at this place."""
    stamp = last_flush(table)
    if stamp is None or stamp.app_id is None or stamp.app_id == target.app_id:
        return ""
    return stamp.app_id if _warehouse(stamp.app_id) == _warehouse(target.app_id) else ""


def _warehouse(app_id: str) -> str:
    return app_id.rpartition("/")[0]


def last_flush(table: ScopeTable) -> CommitStamp | None:
    """Returns the stamp of our last flush, which names the log and the user; None also when a fence is newer."""
    for entry in walk(open_store(table.location), table.version):
        stamp = entry.stamp
        if stamp is not None and stamp.fences:
            return None
        if stamp is not None and stamp.app_id is not None:
            return stamp
    return None
