"""Whose rows a scope's table holds: a directory can be copied to where it does not belong.

The table says it in a property, which is there whenever it is opened. One that was made before there was that property is
told by its commits.
"""

from __future__ import annotations

from lakewarden.delta.commit_log.stamp import DROP, ERASE, CommitStamp
from lakewarden.delta.place import place_of
from lakewarden.delta.table import ScopeTable
from lakewarden.delta.timeline import walk
from lakewarden.errors import Corrupt
from lakewarden.target import ScopeTarget

PROPERTY = "lakewarden.scope"


def owner_of(target: ScopeTarget) -> str:
    """What the property of the scope's table is: its log's id, and the user's keyed hash. Empty where it has none."""
    return f"{target.app_id.rpartition('/')[2]} {target.mark}" if target.mark else ""


def check_owner(table: ScopeTable, target: ScopeTarget) -> None:
    """Costs no request. A table that says nothing, and one without rows, as a dropped one's, may be anybody's.

    Raises:
        Corrupt: the table is another scope's.
    """
    expected, said = owner_of(target), table.property(PROPERTY)
    if expected and said and said != expected and table.adds.num_rows:
        raise Corrupt(
            f"the table at {target.uri} is another scope's, not that of {target.scope}: its directory was copied there;"
            f" lakewarden repair {target.scope.table} puts it aside"
        )


def copied_from(table: ScopeTable, target: ScopeTarget) -> str:
    """Says where the table came from, if its last flush was another scope's; empty where it is `target`'s own.

    A table that was dropped or erased, and one that no flush of ours has written to, is nobody's.
    """
    stamp = last_flush(table)
    if stamp is None:
        return ""
    if stamp.app_id != target.app_id:
        return f"its last flush was one of {stamp.app_id}, and this is {target.app_id}"
    return "" if stamp.user == target.scope.user else f"its last flush was one of user {stamp.user!r}"


def begun_anew(table: ScopeTable, target: ScopeTarget) -> str:
    """The same warehouse's other write log whose rows it holds: that of a table which was made at this place since."""
    stamp = last_flush(table)
    if stamp is None or stamp.app_id is None or stamp.app_id == target.app_id:
        return ""
    return stamp.app_id if _warehouse(stamp.app_id) == _warehouse(target.app_id) else ""


def _warehouse(app_id: str) -> str:
    return app_id.rpartition("/")[0]


def last_flush(table: ScopeTable) -> CommitStamp | None:
    """The stamp of the last flush of ours, which names the log and the user; None where a fence is above it, too."""
    for entry in walk(place_of(table.location), table.version):
        stamp = entry.stamp
        if stamp is not None and stamp.operation in (DROP, ERASE):
            return None
        if stamp is not None and stamp.app_id is not None:
            return stamp
    return None
