"""Opens a scope's Delta table by its target. It refuses a table that is lost, older than known, or another scope's.

Whose rows it holds is checked because a directory can be copied to a wrong place.

The table says it in a property, which is read whenever it is opened. For a table that is older than this property,
its commits say it.
"""

from __future__ import annotations

from functools import reduce

from lakewarden.base.scope import NOTHING, without_table
from lakewarden.catalog.state.floor import floor_at
from lakewarden.catalog.state.floor_entries import FloorLocation, KnownState
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.commit_log.actions import CHANGE_DATA_FEED
from lakewarden.delta.commit_log.kept_versions import kept_snapshot
from lakewarden.delta.commit_log.stamp import CommitStamp
from lakewarden.delta.row_rules import KNOWN_RULES, rules_of
from lakewarden.delta.table import ScopeTable
from lakewarden.delta.timeline import walk
from lakewarden.errors import Conflict, Corrupt
from lakewarden.storage.open import open_store
from lakewarden.storage.owner import RECENT_SECONDS, confirm, naming

PROPERTY = "lakewarden.scope"


def owner_of(target: ScopeTarget) -> str:
    """Returns the property of the scope's table: its log's id, and the user's keyed hash. Empty when it has none."""
    return f"{target.log_id} {target.mark}" if target.mark else ""


def owner_property(target: ScopeTarget) -> dict[str, str]:
    """The same with its name; empty when it has none."""
    owner = owner_of(target)
    return {PROPERTY: owner} if owner else {}


def check_owner(table: ScopeTable, target: ScopeTarget) -> None:
    """Checks the owner without a request. A table without the property or without rows may belong to any scope.

    Raises:
        Corrupt: the table is another scope's.
    """
    if table.has_files and _is_of_another(table, target):
        raise Corrupt(
            f"the table at {target.uri} belongs to another scope, not to {target.scope}: its directory was copied there;"
            f" lakewarden repair {target.scope.table} moves it aside"
        )


def _owner_to_set(table: ScopeTable, target: ScopeTarget) -> dict[str, str]:
    """Returns the property for a commit on the scope's table, if the table does not have it yet.

    Raises:
        Corrupt: its commits say that it belongs to another scope.
    """
    owner = owner_of(target)
    if not owner or table.property(PROPERTY) == owner:
        return {}
    if wrong := copied_from(table, target):
        raise Corrupt(f"the table at {target.uri} was copied there: {wrong}")
    return owner_property(target)


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


_LOOKS = 20


def open_scope(target: ScopeTarget, version: int | None = None, *, newest: bool = True) -> ScopeTable | None:
    """Opens the newest version of the scope's table, or that version; None when the storage is present and has no table.
    The newest one is read from the log only if it is not known (`delta.commit_log.kept_versions`).

    Args:
        newest: without it, one that was the newest may do, because a commit follows that is refused if it is not.

    Raises:
        StorageUnavailable: there is no table because the storage is not the one that the catalog means.
        Corrupt: the table has less than is known of it, or belongs to another scope; or as `ScopeTable.open`.
        NotFound: as `ScopeTable.open`.
    """
    if version is None:
        with naming(target.root):
            kept = kept_snapshot(target, newest=newest)
            table = None if kept is None else ScopeTable(target.location, kept)
        return compared(table or open_place(target), target)
    table = open_place(target, version)
    return None if table is None else _of_scope(table, target)


def existing_table(target: ScopeTarget, version: int | None = None) -> ScopeTable:
    """As `open_scope`, for what needs a table.

    Raises:
        NotFound: there is none.
    """
    table = open_scope(target, version)
    if table is None:
        raise without_table(target.scope)
    return table


def open_place(target: ScopeTarget, version: int | None = None) -> ScopeTable | None:
    """Opens the same whatever is known of the scope, for an operation that gives it up."""
    with naming(target.root):
        table = ScopeTable.open(target.location, version)
    if table is None and target.root is not None:
        confirm(target.root, RECENT_SECONDS)
    return table


def compared(table: ScopeTable | None, target: ScopeTarget) -> ScopeTable | None:
    """Opens the scope's newest table, and checks that it has what is known of it and belongs to the scope.

    Raises:
        Corrupt: it does not.
        Conflict: what is known changed with each look.
    """
    if table is not None:
        check_owner(table, target)  # first: another scope's versions say nothing about this one's
    found, lost = what_is_lost(table, target)
    if lost:
        raise Corrupt(f"{lost}: lakewarden repair {target.scope.table} shows what can be restored")
    if found is None:
        return None
    KNOWN_RULES.see(target, found.head, has=bool(rules_of(found.head)))
    return _of_scope(found, target, checked=found is table)


def what_is_lost(table: ScopeTable | None, target: ScopeTarget) -> tuple[ScopeTable | None, str]:
    """Returns in which way the scope's newest table has less than is known of it (empty when it does not), and the table.

    What is known may be out of date, as for a scope that was given up after the target was made: then both are read again.

    Raises:
        StorageUnavailable: there is no table because the storage is not the one that the catalog means.
        Conflict: what is known changed with each look.
    """
    known = target.known
    for _ in range(_LOOKS):
        lost = _less(table, known, target)
        if not lost:
            return table, ""
        again = _known_now(target)
        if again == known:
            if table is None and target.root is not None:
                confirm(target.root)  # it may have been unmounted since the last confirmation
            return table, lost
        known, table = again, open_place(target)
    raise Conflict(f"{target.scope} was committed to {_LOOKS} times while it was opened; try again")


def _known_now(target: ScopeTarget) -> KnownState | None:
    """Returns what either copy of the floor knows now: the state's may be an older one that was put back."""
    copies = [] if target.floor is None else [target.floor]
    if target.floor is not None and target.root is not None:
        copies.append(FloorLocation.on_storage(target.root.location, target.floor.table_id))
    found = [known for copy in copies if (known := floor_at(copy).look().known(target.mark)) is not None]
    return reduce(KnownState.joined, found) if found else None


def _less(table: ScopeTable | None, known: KnownState | None, target: ScopeTarget) -> str:
    """Returns in which way the table has less than that; empty when it does not."""
    found = None if table is None or known is None else table.watermark(target.app_id)
    watermark = NOTHING if found is None else found
    if known is None or not known.exceeds(-1 if table is None else table.version, watermark):
        return ""
    was = f"{target.scope} was at version {known.version} with {known.rows} rows"
    if table is None:
        return f"{was}, and there is no table at {target.uri}"
    if table.version < known.version:
        return f"{was}, and {target.uri} has version {table.version}"
    return f"{was} and all rows up to _seq {known.watermark}, and {target.uri} has them up to {watermark}"


def _of_scope(table: ScopeTable, target: ScopeTarget, *, checked: bool = False) -> ScopeTable:
    if not checked:
        check_owner(table, target)
    table.scope = target.scope if target.mark else None
    return table


# Delta's change data feed on a scope's table: whether it has one, and the properties by which its commits say so.
#
# The table's option decides, and where that says nothing the table's own property, which other writers may have set.


def has_feed(table: ScopeTable | None, target: ScopeTarget) -> bool:
    """Whether readers of the feed are to find what the next commit changes."""
    if target.change_data_feed is not None:
        return target.change_data_feed
    return table is not None and table.head.has_change_data_feed and not _is_of_another(table, target)


def _is_of_another(table: ScopeTable, target: ScopeTarget) -> bool:
    """Whether it says that it is another scope's, as what a dropped table left at this place."""
    owner, said = owner_of(target), table.property(PROPERTY)
    return bool(owner and said and said != owner)


def properties_to_set(table: ScopeTable, target: ScopeTarget) -> dict[str, str]:
    """Returns what the table's next commit has to say of it: whose it is, and whether it has a feed.

    Raises:
        Corrupt: its commits say that it belongs to another scope.
    """
    return _owner_to_set(table, target) | feed_to_set(table, target)


def feed_to_set(table: ScopeTable, target: ScopeTarget) -> dict[str, str]:
    """Returns the property for the table's next commit, where it has to change."""
    wanted = has_feed(table, target)
    if wanted == table.head.has_change_data_feed:
        return {}
    return {CHANGE_DATA_FEED: str(wanted).lower()}
