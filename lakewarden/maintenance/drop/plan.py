"""The plan of a drop. It rests on the table and its place alone; later rows go too."""

from __future__ import annotations

from lakewarden.base.scope import Scope, TableName
from lakewarden.catalog.model import Catalog
from lakewarden.catalog.report import ScopeReport
from lakewarden.maintenance.plans.standing import place_of
from lakewarden.maintenance.scopes import scopes_of
from lakewarden.tables.warehouse import Warehouse, find_table


def plan_drop(warehouse: Warehouse, catalog: Catalog, name: TableName) -> ScopeReport:
    """One report for the table as a whole.

    Raises:
        NotFound: no such table.
    """
    table = find_table(catalog, name)
    scopes = len(scopes_of(warehouse, table, None))
    waiting = int(warehouse.log(table).view().counts.rows.sum())
    return ScopeReport(
        Scope(name),
        "drop",
        "planned",
        place_of(warehouse, catalog, table, None),
        reason=f"the table goes, with {scopes} scopes and {waiting} rows in the log",
        metrics={"scopes": scopes, "rows_pending": waiting},
    )
