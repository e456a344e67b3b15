"""Begins the Delta table of a SHARED table at version 0: when it is created, or by the first direct write after a crash.
Adds columns to it when they are declared, and not with the next rows.
"""

from __future__ import annotations

from lakewarden.catalog.model import Catalog, Table
from lakewarden.delta.commit_log.committing import Committer
from lakewarden.delta.lifecycle.beginning import begin_table
from lakewarden.delta.table import ScopeTable
from lakewarden.storage.steps import alone
from lakewarden.tables.warehouse import Warehouse


def begins_at_once(table: Table) -> bool:
    """Whether the Delta table is begun with the table itself, and not by the first flush."""
    return table.type == "SHARED" and bool(table.dynamic or table.schema.partition_by or not table.schema.keyed)


def begun(warehouse: Warehouse, catalog: Catalog, table: Table) -> ScopeTable:
    """Opens the Delta table of a SHARED table, which is begun where it does not exist. Safe to call at any time.

    Raises:
        Conflict, Corrupt: as `begin_table`.
        StorageUnavailable, StorageRefused: its storage is away.
    """
    by = _committer(warehouse, "CT")
    warehouse.check_open(catalog, table, None)
    return alone(begin_table(warehouse.target_of(catalog, table, None), by))


def widen(warehouse: Warehouse, catalog: Catalog, table: Table) -> None:
    """Adds the columns that were declared since its newest version, where no file has to be written again for that; otherwise
    its next flush or direct write does. Safe to call at any time.

    Raises:
        Conflict, Corrupt: as `begin_table`.
        StorageUnavailable, StorageRefused: its storage is away.
    """
    by = _committer(warehouse, "AT")
    warehouse.check_open(catalog, table, None)
    alone(begin_table(warehouse.target_of(catalog, table, None), by, columns=True))


def _committer(warehouse: Warehouse, kind: str) -> Committer:
    return Committer(f"{kind}-{warehouse.new_id()[:8]}", warehouse.clock(), warehouse.clock)
