"""The plan of a move. It rests on the table and both places alone; later rows go along."""

from __future__ import annotations

from lakewarden.base.connection import Location
from lakewarden.base.scope import Scope, TableName
from lakewarden.catalog.access import require
from lakewarden.catalog.changes.moving import begin_move
from lakewarden.catalog.changes.objects import table_place
from lakewarden.catalog.model import Catalog
from lakewarden.catalog.report import ScopeReport
from lakewarden.errors import Moved
from lakewarden.maintenance.move import MoveOptions
from lakewarden.maintenance.plans.value import Plan
from lakewarden.maintenance.scopes import scopes_of
from lakewarden.storage.open import open_store
from lakewarden.tables.presence import Presence
from lakewarden.tables.warehouse import Warehouse, find_table

_TO = "target"


def plan_move(warehouse: Warehouse, catalog: Catalog, name: TableName, storage_id: str) -> ScopeReport:
    """One report for the table as a whole; `skipped` where it is already there.

    Raises:
        NotFound: the table or the storage does not exist.
        Unsupported: a STREAM table.
        InUse: it is being moved elsewhere, or its place there is another table's.
        StorageUnavailable: one of the two storages is away.
    """
    table = find_table(catalog, name)
    require(table, "cold tier", "moves between storages")
    here = _place(warehouse, catalog, name, table.options.storage_id)
    if begin_move(catalog, name, storage_id, warehouse.base).tables[name].move is None:
        return ScopeReport(Scope(name), "move", "skipped", here, f"it is on storage {storage_id!r} already")
    Presence.among(warehouse.root(catalog.storages[id_]) for id_ in (table.options.storage_id, storage_id)).check()
    files = open_store(here).list("")
    scopes = [scope for scope in scopes_of(warehouse, table, None) if warehouse.goes_along(catalog, table, scope.user)]
    metrics = {"scopes": len(scopes), "files": len(files), "bytes": sum(found.size for found in files)}
    return ScopeReport(
        Scope(name),
        "move",
        "planned",
        here,
        reason=f"{len(scopes)} scopes go to storage {storage_id!r}: {len(files)} files of {metrics['bytes']} bytes",
        parameters={_TO: _place(warehouse, catalog, name, storage_id).uri},
        metrics=metrics,
    )


def check_move(warehouse: Warehouse, plan: Plan) -> None:
    """Whether the table and both places are those of the plan. A move that this plan began may be continued, or be over.

    Raises:
        Moved: they are not.
    """
    catalog = warehouse.catalog.read()
    for line in plan.scopes:
        table = catalog.tables.get(line.scope.table)
        if table is None or table.dropping:
            raise Moved(f"there is no table {line.scope.table} any more; plan again")
        storage = catalog.storages.get(to := plan.request.options_of(MoveOptions).to or "")
        target = "" if storage is None else table_place(storage, table, warehouse.base)
        if target != line.parameters[_TO]:
            raise Moved(f"{line.scope} was to go to {line.parameters[_TO]}, and storage {to!r} is elsewhere now")
        here = _place(warehouse, catalog, table.name, table.options.storage_id).uri
        line.check_place(table.log_id, line.uri if here == target else here)


def _place(warehouse: Warehouse, catalog: Catalog, name: TableName, storage_id: str) -> Location:
    storage = catalog.storages[storage_id]
    return Location(table_place(storage, find_table(catalog, name), warehouse.base), storage.connection)
