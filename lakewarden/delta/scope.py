"""The door to a scope's Delta table for whoever has its target."""

from __future__ import annotations

from lakewarden.delta.table import ScopeTable
from lakewarden.report import ScopeTarget
from lakewarden.storage.owner import RECENT_SECONDS, confirm


def open_scope(target: ScopeTarget, version: int | None = None) -> ScopeTable | None:
    """The newest version of the scope's table, or that one; None where there is no table, on a storage that is there.

    Raises:
        StorageUnavailable: there is no table because the storage is not the one that the catalog means.
        NotFound, Corrupt: as `ScopeTable.open`.
    """
    table = ScopeTable.open(target.location, version)
    if table is None and target.root is not None:
        confirm(target.root, RECENT_SECONDS)
    return table
