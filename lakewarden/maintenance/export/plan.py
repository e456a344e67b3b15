"""The plan of an export. It rests on the tables and their places alone; later rows go along."""

from __future__ import annotations

from lakewarden.base.scope import Scope
from lakewarden.catalog.access import can
from lakewarden.catalog.model import Catalog
from lakewarden.catalog.report import ScopeReport
from lakewarden.maintenance.export import ExportOptions
from lakewarden.maintenance.export.run import check_target
from lakewarden.maintenance.known_users import check_known
from lakewarden.maintenance.request import Request
from lakewarden.maintenance.verification import tables_of_users
from lakewarden.storage.open import open_store
from lakewarden.storage.owner import naming
from lakewarden.storage.paths import check_user
from lakewarden.tables.warehouse import Warehouse

_TO = "target"


def plan_export(warehouse: Warehouse, catalog: Catalog, request: Request) -> list[ScopeReport]:
    """A report for each table of which the user has something.

    Raises:
        NotFound, InvalidArgument, Unsupported, InUse: an unknown or impossible user, or a place that cannot be exported to.
    """
    user = check_user(request.user)
    check_known(warehouse, user)
    to = check_target(warehouse, request.options_of(ExportOptions).to or "", user)
    reports = []
    for table in tables_of_users(catalog, ()):
        if not can(table.type, "cold tier"):
            continue
        target = warehouse.target_of(catalog, table, user)
        with naming(target.root):
            sizes = [found.size for found in open_store(target.location).list("")]
        pending = warehouse.log(table).view().pending.get(user)
        metrics = {"hot_rows": pending.rows if pending else 0, "files": len(sizes), "bytes": sum(sizes)}
        reason = f"{metrics['files']} files of {metrics['bytes']} bytes are copied, after a flush of {metrics['hot_rows']} rows"
        if sizes or pending:
            scope = Scope(table.name, user)
            reports.append(
                ScopeReport(scope, "export", "planned", target.location, reason, parameters={_TO: to}, metrics=metrics)
            )
    return reports
