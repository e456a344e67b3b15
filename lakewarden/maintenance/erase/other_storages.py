"""A user's scope on storages other than its table's: it may have been there before a move, or was being moved there."""

from __future__ import annotations

from lakewarden.base.connection import Location
from lakewarden.catalog.access import can
from lakewarden.catalog.changes.objects import table_place
from lakewarden.catalog.model import Catalog, Table
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.commit_log.publish import version_of_unnamed
from lakewarden.delta.replay.log_objects import LOG
from lakewarden.delta.table import ScopeTable
from lakewarden.storage.location import overlaps
from lakewarden.storage.open import open_store
from lakewarden.tables.warehouse import Warehouse


def places_elsewhere(warehouse: Warehouse, catalog: Catalog, table: Table, target: ScopeTarget) -> list[Location]:
    """The scope's place on each other storage, except places that belong to a table."""
    if not can(table.type, "cold tier"):
        return []
    taken = [target.uri, *_places_of_tables(warehouse, catalog, table)]
    there = (warehouse.location_of(catalog, table, target.scope.user, id_) for id_ in catalog.storages)
    # With folded case, whatever the storages do: a place that might be a table's is left alone.
    return [place for place in there if not any(overlaps(place.uri, other, folds_case=True) for other in taken)]


def clear(place: Location) -> None:
    """Removes what a killed or late copier left: everything except the fence of a table that moved away."""
    store = open_store(place)
    names = [found.key for found in store.list("")]
    if not names:
        return
    table = ScopeTable.open(place)
    # The fence of a table that moved away stays for those who sleep (docs/decisions/0014-moving-by-freezing.md); what a copier
    # left has none.
    fence = table.version if table is not None and table.is_fenced else None
    store.delete(name for name in names if fence is None or not _is_of_fence(name, fence))


def _is_of_fence(name: str, version: int) -> bool:
    """Empties older commits there, and deletes older checkpoints."""
    # A commit that never got its name holds the statistics of the user's rows.
    if version_of_unnamed(name) is not None:
        return False
    return name.startswith(f"{LOG}/") and (not name.endswith(".parquet") or f"{version:020d}" in name)


def _places_of_tables(warehouse: Warehouse, catalog: Catalog, table: Table) -> list[str]:
    """The places of tables: this one's by the catalog, others' also where their users may have storages of their own."""
    return [
        table_place(catalog.storages[id_], each, warehouse.base)
        for each in catalog.tables.values()
        if can(each.type, "cold tier")
        for id_ in (catalog.storages if each.options.use_user_storage and each.id != table.id else each.storage_ids)
    ]
