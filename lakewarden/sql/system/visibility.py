"""What a session may see of the warehouse: the tables and views that it may read."""

from __future__ import annotations

from dataclasses import dataclass

from lakewarden.base.scope import TableName
from lakewarden.catalog.access import Principal, may
from lakewarden.catalog.model import Table
from lakewarden.sql.context import Context
from lakewarden.tables.warehouse import live_tables


@dataclass(frozen=True)
class VisibleObjects:
    """`version` is the catalog's."""

    version: int
    principal: Principal
    namespaces: tuple[str, ...]
    namespace: str | None
    """The one in use."""
    tables: tuple[Table, ...]
    views: tuple[TableName, ...]
    """Whether their queries may be run is decided when they are."""


def seen(context: Context) -> VisibleObjects:
    catalog = context.catalog
    return VisibleObjects(
        catalog.version,
        context.principal,
        tuple(sorted(catalog.namespaces)),
        context.namespace,
        tuple(table for table in live_tables(catalog) if may(context.principal, "read", table)),
        tuple(catalog.views),
    )
