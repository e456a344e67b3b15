"""A table's move to another storage as changes of the catalog: start, close, switch, end; or cancel before the switch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from lakewarden.base.scope import TableName
from lakewarden.catalog.changes.objects import BaseOf, check_place, check_storage
from lakewarden.catalog.model import Catalog, Move, Table
from lakewarden.errors import Conflict, InUse, NotFound


def begin_move(catalog: Catalog, name: TableName, storage_id: str, base_of: BaseOf) -> Catalog:
    """Notes where the table goes; a move there that is under way already stays as it is.

    Raises:
        NotFound: no such table or storage.
        InUse: it is being moved elsewhere, or its place there is a table's (its own, too).
    """
    table = _table(catalog, name)
    check_storage(catalog, storage_id)
    if table.move is not None and table.move.target != storage_id:
        raise InUse(f"{name} is being moved to storage {table.move.target!r}: end that, or cancel it, first")
    if table.move is not None or table.options.storage_id == storage_id:
        return catalog
    check_place(catalog, table, storage_id, base_of)
    return _with(catalog, replace(table, move=Move(table.options.storage_id, storage_id)))


def set_phase(catalog: Catalog, name: TableName, phase: Literal["copying", "closing"]) -> Catalog:
    """Closes the table: from now on no flush starts. Or goes back to copying: what was closed could not be moved whole."""
    return _changed(catalog, name, lambda table, move: replace(table, move=replace(move, phase=phase)))


def switch_table(catalog: Catalog, name: TableName) -> Catalog:
    """Switches the table to its target."""

    def switched(table: Table, move: Move) -> Table:
        return replace(table, options=replace(table.options, storage_id=move.target), move=replace(move, phase="leaving"))

    # The storage and the phase change in one version: no reader sees one without the other.
    return _changed(catalog, name, switched)


def end_move(catalog: Catalog, name: TableName) -> Catalog:
    return _changed(catalog, name, lambda table, _: replace(table, move=None))


def _changed(catalog: Catalog, name: TableName, change: Callable[[Table, Move], Table]) -> Catalog:
    table = _table(catalog, name)
    if table.move is None:
        raise Conflict(f"the move of {name} was ended or cancelled by another process meanwhile")
    return _with(catalog, change(table, table.move))


def _table(catalog: Catalog, name: TableName) -> Table:
    table = catalog.tables.get(name)
    if table is None or table.dropping:
        raise NotFound(f"there is no table {name}")
    return table


def _with(catalog: Catalog, table: Table) -> Catalog:
    return replace(catalog, tables={**catalog.tables, table.name: table})
