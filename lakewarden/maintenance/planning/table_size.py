"""The size of a SHARED table by its newest commit: nothing is listed, and no row is read."""

from __future__ import annotations

from dataclasses import dataclass

from lakewarden.base.scope import Scope
from lakewarden.catalog.model import Table
from lakewarden.catalog.target import ScopeTarget
from lakewarden.tables.strong_read import where_it_lies
from lakewarden.tables.warehouse import Warehouse


@dataclass(frozen=True)
class TableSize:
    """Cold rows, data files, and their bytes. Rows that are pending in the log are not counted."""

    version: int | None
    """The newest one; None before the first."""
    rows: int
    files: int
    bytes: int


def table_size(warehouse: Warehouse, table: Table) -> TableSize:
    """Reads what the newest version's commits say of its files.

    Raises:
        Corrupt, StorageUnavailable: the table cannot be opened.
    """

    def place() -> ScopeTarget:
        return warehouse.target(warehouse.catalog.read(), Scope(table.name, None))

    def read(target: ScopeTarget) -> tuple[TableSize, bool]:
        found = warehouse.cold.tables.open(target)
        if found is None:
            return TableSize(None, 0, 0, 0), False
        state = found.state(target.app_id)
        return TableSize(state.version, state.rows - found.deleted_rows, state.files, state.bytes), False

    return where_it_lies(place, read)
