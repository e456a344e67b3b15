"""The plans of what removes all: a drop, and an erasure. They rest on the table and its place alone; later rows go too."""

from __future__ import annotations

from lakewarden.base.connection import Location
from lakewarden.base.scope import Scope, TableName
from lakewarden.catalog.access import can
from lakewarden.catalog.changes.objects import table_place
from lakewarden.catalog.model import Catalog, Table
from lakewarden.catalog.operations import Request
from lakewarden.catalog.report import ScopeReport
from lakewarden.errors import Moved
from lakewarden.maintenance.known_users import check_known
from lakewarden.maintenance.plans.value import Plan, PlannedScope
from lakewarden.maintenance.scopes import scopes_of
from lakewarden.maintenance.verification import tables_of_users
from lakewarden.storage.open import open_store
from lakewarden.storage.paths import check_user
from lakewarden.tables.presence import Presence
from lakewarden.tables.warehouse import Warehouse, find_table


def plan_drop(warehouse: Warehouse, name: TableName) -> ScopeReport:
    """One report for the table as a whole.

    Raises:
        NotFound: no such table.
    """
    catalog = warehouse.catalog.read()
    table = find_table(catalog, name)
    scopes = len(scopes_of(warehouse, table, None))
    waiting = int(warehouse.log(table).view().counts.rows.sum())
    return ScopeReport(
        Scope(name),
        "drop",
        "planned",
        _place(warehouse, catalog, table, None),
        reason=f"the table goes, with {scopes} scopes and {waiting} rows in the log",
        metrics={"scopes": scopes, "rows_pending": waiting},
    )


def plan_erase(warehouse: Warehouse, request: Request) -> list[ScopeReport]:
    """A report for each table that the user is erased from.

    Raises:
        NotFound, InvalidArgument: no such table, or a SHARED one; an unknown or impossible user.
        StorageUnavailable: a storage is away.
    """
    user, catalog = check_user(request.user), warehouse.catalog.read()
    if not request.even_if_unknown:
        check_known(warehouse, user, request.tables)
    Presence.among(map(warehouse.root, catalog.storages.values())).check()  # as the erasure does
    reports = []
    for table in tables_of_users(catalog, request.tables):
        place = _place(warehouse, catalog, table, user)
        sizes = [found.size for found in open_store(place).list("")] if can(table.type, "cold tier") else []
        pending = warehouse.log(table).view((user,)).pending.get(user)
        metrics = {"hot_rows": pending.rows if pending else 0, "files": len(sizes), "bytes": sum(sizes)}
        reason = f"{metrics['hot_rows']} rows in the log and {metrics['files']} files of {metrics['bytes']} bytes go"
        reports.append(ScopeReport(Scope(table.name, user), "erase", "planned", place, reason=reason, metrics=metrics))
    return reports


def check_standing(warehouse: Warehouse, plan: Plan) -> None:
    """Whether each table of the plan is the one that was planned for, at its place: it is done as a whole, or not at all.

    Raises:
        Moved: one is not.
    """
    catalog = warehouse.catalog.read()
    for line in plan.scopes:
        _check(warehouse, catalog, line)


def _check(warehouse: Warehouse, catalog: Catalog, line: PlannedScope) -> None:
    table = catalog.tables.get(line.scope.table)  # one whose drop was interrupted too
    if table is None:
        raise Moved(f"there is no table {line.scope.table} any more; plan again")
    line.check_place(table.log_id, _place(warehouse, catalog, table, line.user).uri)


def _place(warehouse: Warehouse, catalog: Catalog, table: Table, user: str | None) -> Location:
    """Where the table is, or the user's scope of it; rows of a STREAM table are in its log alone."""
    if not can(table.type, "cold tier"):
        return Location(warehouse.state.uri).below(warehouse.log(table).home)
    if user is not None:
        return warehouse.target_of(catalog, table, user).location
    return Location(table_place(catalog.storages[table.options.storage_id], table, warehouse.base))
