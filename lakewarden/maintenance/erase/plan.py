"""The plan of an erasure. It rests on the tables and their places alone; later rows go too."""

from __future__ import annotations

from lakewarden.base.scope import Scope
from lakewarden.catalog.access import can
from lakewarden.catalog.model import Catalog
from lakewarden.catalog.report import ScopeReport
from lakewarden.maintenance.erase import EraseOptions
from lakewarden.maintenance.known_users import check_known
from lakewarden.maintenance.plans.standing import place_of
from lakewarden.maintenance.request import Request
from lakewarden.maintenance.verification import tables_of_users
from lakewarden.storage.open import open_store
from lakewarden.storage.paths import check_user
from lakewarden.tables.presence import Presence
from lakewarden.tables.warehouse import Warehouse


def plan_erase(warehouse: Warehouse, catalog: Catalog, request: Request) -> list[ScopeReport]:
    """A report for each table that the user is erased from.

    Raises:
        NotFound, InvalidArgument: no such table, or a SHARED one; an unknown or impossible user.
        StorageUnavailable: a storage is away.
    """
    user = check_user(request.user)
    if not request.options_of(EraseOptions).even_if_unknown:
        check_known(warehouse, user, request.tables)
    Presence.among(map(warehouse.root, catalog.storages.values())).check()  # as the erasure does
    reports = []
    for table in tables_of_users(catalog, request.tables):
        place = place_of(warehouse, catalog, table, user)
        sizes = [found.size for found in open_store(place).list("")] if can(table.type, "cold tier") else []
        pending = warehouse.log(table).view((user,)).pending.get(user)
        metrics = {"hot_rows": pending.rows if pending else 0, "files": len(sizes), "bytes": sum(sizes)}
        reason = f"{metrics['hot_rows']} rows in the log and {metrics['files']} files of {metrics['bytes']} bytes go"
        reports.append(ScopeReport(Scope(table.name, user), "erase", "planned", place, reason=reason, metrics=metrics))
    return reports
