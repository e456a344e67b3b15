"""Creates and removes namespaces and views."""

from __future__ import annotations

from collections.abc import Callable

from lakewarden.base.scope import TableName
from lakewarden.catalog.changes.engines import set_engine
from lakewarden.catalog.changes.objects import Reads, add_namespace, add_view, check_view_of_itself, drop_namespace, drop_view
from lakewarden.catalog.changes.pipelines import pipelines_in
from lakewarden.catalog.model import Catalog, Namespace, View
from lakewarden.catalog.state.ledger import forget_ledger
from lakewarden.tables.warehouse import Warehouse


def make_namespace(warehouse: Warehouse, name: str) -> None:
    """Raises:
    InvalidArgument, AlreadyExists: nothing was created.
    """
    now = warehouse.clock()
    warehouse.catalog.change(lambda catalog: add_namespace(catalog, name, now))


def switch_engine(warehouse: Warehouse, name: str, *, active: bool, settings: str | None = None) -> Namespace:
    """Enables or disables a namespace's engine; `settings`, where they are given, replace its own.

    Raises:
        NotFound: no such namespace.
        InvalidArgument: the settings are not the text of a JSON object.
    """
    now = warehouse.clock()
    changed = warehouse.catalog.change(lambda catalog: set_engine(catalog, name, now, active=active, settings=settings))
    return changed.namespaces[name]


def remove_namespace(warehouse: Warehouse, name: str, drop: Callable[[TableName], object] | None = None) -> None:
    """Removes a namespace. With `drop`, which drops a table, its tables and views are removed first.

    Raises:
        NotFound: no such namespace.
        InUse: something is in it.
        StorageUnavailable: a storage with scopes of a table is away; nothing was dropped.
    """
    before = warehouse.catalog.read()
    if drop is not None:
        tables = [table for table in (*before.tables, *before.blanks) if table.namespace == name]
        from lakewarden.maintenance.drop import check_present  # brings Delta, which most commands need not load

        for table in tables:
            check_present(warehouse, table)
        for table in tables:
            drop(table)
        for view in [view for view in warehouse.catalog.read().views if view.namespace == name]:
            remove_view(warehouse, view)
    warehouse.catalog.change(lambda catalog: drop_namespace(catalog, name))
    for pipeline in pipelines_in(before, name):
        forget_ledger(warehouse.state, pipeline.id)


def make_view(warehouse: Warehouse, name: TableName, text: str, reads: Reads, *, replacing: bool) -> None:
    """Stores a query, already parsed, under a name.

    Args:
        reads: what the query of a view names.

    Raises:
        InvalidArgument, AlreadyExists, NotFound: nothing was created.
    """
    view = View(name, text, warehouse.clock())

    def added(catalog: Catalog) -> Catalog:
        made = add_view(catalog, view, replacing=replacing)
        check_view_of_itself(made, view, reads)
        return made

    warehouse.catalog.change(added)


def remove_view(warehouse: Warehouse, name: TableName) -> None:
    """Raises NotFound: no such view."""
    warehouse.catalog.change(lambda catalog: drop_view(catalog, name))
