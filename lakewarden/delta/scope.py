"""The door to a scope's Delta table for whoever has its target: it never takes a table that is lost, or set back, or another
scope's, for what the scope has."""

from __future__ import annotations

from lakewarden.delta.ownership import check_owner
from lakewarden.delta.table import ScopeTable
from lakewarden.errors import Conflict, Corrupt
from lakewarden.state.floor_entries import NOTHING, Known
from lakewarden.state.floors import floor_at
from lakewarden.storage.owner import RECENT_SECONDS, confirm
from lakewarden.target import ScopeTarget

_LOOKS = 20


def open_scope(target: ScopeTarget, version: int | None = None) -> ScopeTable | None:
    """The newest version of the scope's table, or that one; None where there is no table, on a storage that is there.

    Raises:
        StorageUnavailable: there is no table because the storage is not the one that the catalog means.
        Corrupt: the table has less than is known of it, or is another scope's; or as `ScopeTable.open`.
        NotFound: as `ScopeTable.open`.
    """
    if version is None:
        return compared(open_place(target), target)
    table = open_place(target, version)
    return None if table is None else _of_scope(table, target)


def open_place(target: ScopeTarget, version: int | None = None) -> ScopeTable | None:
    """The same whatever is known of the scope: for who gives it up."""
    table = ScopeTable.open(target.location, version)
    if table is None and target.root is not None:
        confirm(target.root, RECENT_SECONDS)
    return table


def compared(table: ScopeTable | None, target: ScopeTarget) -> ScopeTable | None:
    """The scope's newest table, if it is not less than what is known of it, nor another scope's.

    Raises:
        Corrupt: it is.
        Conflict: what is known changed with each look.
    """
    if table is not None:
        check_owner(table, target)  # first: another scope's versions say nothing about this one's
    table, lost = what_is_lost(table, target)
    if lost:
        raise Corrupt(f"{lost}: lakewarden repair {target.scope.table} tells what can be had back")
    return None if table is None else _of_scope(table, target)


def what_is_lost(table: ScopeTable | None, target: ScopeTarget) -> tuple[ScopeTable | None, str]:
    """In which way the scope's newest table is less than what is known of it, empty where it is not; and that table.

    What is known may be old news, as of a scope that was given up since the target was made: then both are looked at again.

    Raises:
        StorageUnavailable: there is no table because the storage is not the one that the catalog means.
        Conflict: what is known changed with each look.
    """
    known = target.known
    for _ in range(_LOOKS):
        lost = _less(table, known, target)
        if not lost:
            return table, ""
        again = None if target.floor is None else floor_at(target.floor).look().known(target.mark)
        if again == known:
            if table is None and target.root is not None:
                confirm(target.root)  # it may have been unmounted within the time for which a look is remembered
            return table, lost
        known, table = again, open_place(target)
    raise Conflict(f"{target.scope} was committed to {_LOOKS} times while it was opened; try again")


def _less(table: ScopeTable | None, known: Known | None, target: ScopeTarget) -> str:
    """In which way the table is less than that."""
    if known is None or known.forgotten:
        return ""
    was = f"{target.scope} was at version {known.version} with {known.rows} rows"
    if table is None:
        return f"{was}, and there is no table at {target.uri}"
    if table.version < known.version:
        return f"{was}, and {target.uri} has version {table.version}"
    watermark = table.watermark(target.app_id)
    watermark = NOTHING if watermark is None else watermark
    if watermark < known.watermark:
        return f"{was} and all rows up to _seq {known.watermark}, and {target.uri} has them up to {watermark}"
    return ""


def _of_scope(table: ScopeTable, target: ScopeTarget) -> ScopeTable:
    check_owner(table, target)
    table.scope = target.scope if target.mark else None
    return table
