"""Export: copies all data of a user to another place, as a whole."""

from __future__ import annotations

from lakewarden.base.connection import Location
from lakewarden.base.scope import Scope, TableName
from lakewarden.catalog.access import can
from lakewarden.catalog.model import Catalog
from lakewarden.catalog.report import ScopeReport
from lakewarden.errors import InvalidArgument
from lakewarden.maintenance.erase.known_users import check_known
from lakewarden.maintenance.erase.verification import tables_of_users
from lakewarden.maintenance.export import ExportOptions
from lakewarden.maintenance.export.contents import Export
from lakewarden.maintenance.export.run import check_target, export, own_place
from lakewarden.maintenance.flush.procedure import flush_user
from lakewarden.maintenance.plans.standing import check_standing
from lakewarden.maintenance.plans.store import DoneBy
from lakewarden.maintenance.plans.value import Plan
from lakewarden.maintenance.procedure import AsAWhole
from lakewarden.maintenance.request import Request
from lakewarden.maintenance.workplace import Workplace
from lakewarden.storage.open import open_store
from lakewarden.storage.owner import naming
from lakewarden.storage.paths import check_user
from lakewarden.tables.warehouse import Warehouse

_TO = "target"


class ExportUser(AsAWhole):
    def look(self, at: Workplace, catalog: Catalog, request: Request) -> list[ScopeReport]:
        return plan_export(at.warehouse, catalog, request)

    def run(self, at: Workplace, catalog: Catalog, request: Request, job_id: str | None = None) -> list[ScopeReport]:
        """Without a place, it goes to a folder of its own in the warehouse."""
        user, to = check_user(request.user), request.options_of(ExportOptions).to

        def work(id_: str) -> list[ScopeReport]:
            place = check_target(at.warehouse, to or own_place(at.warehouse, id_), user)
            return _reports(at, user, _exported(at, user, place, id_))

        return at.as_job("export", {"user": user}, work, job_id)

    def apply(self, at: Workplace, plan: Plan) -> DoneBy:
        check_standing(at.warehouse, plan)
        made = export_user(at, plan.request.user or "", plan.request.options_of(ExportOptions).to or "")
        return DoneBy("", f"{len(made.files)} files were exported")

    def check_queued(self, at: Workplace, catalog: Catalog, request: Request) -> None:
        if request.user is None:
            raise InvalidArgument("an export takes one user's tables, all of them: name the user")
        if request.options_of(ExportOptions).to is not None:
            raise InvalidArgument("a queued export goes to a folder of its own in the warehouse: name no place")
        check_user(request.user)


def export_user(at: Workplace, user: str, to: str) -> Export:
    """Flushes what the user has pending, then copies; raises as `maintenance.export.run` does."""
    place = check_target(at.warehouse, to, check_user(user))
    started = at.warehouse.clock()
    job_id = at.new_job_id("export")
    made = _exported(at, user, place, job_id)
    at.jobs.keep("export", job_id, started, {"user": user}, "completed", f"{len(made.files)} files")
    return made


def _exported(at: Workplace, user: str, place: str, job_id: str) -> Export:
    faults = [(report.scope, report.fault) for report in flush_user(at, user) if report.fault]
    if faults:
        scope, first = faults[0]
        raise first.hinders(f"nothing was exported: {scope} could not be flushed")
    return export(at.warehouse, user, place, job_id)


def _reports(at: Workplace, user: str, made: Export) -> list[ScopeReport]:
    return [
        ScopeReport(
            Scope(TableName.parse(table.name), user),
            "export",
            "done",
            Location(made.uri).below(table.path),
            version=table.version,
            metrics={"rows_exported": table.rows},
            finished_at=at.warehouse.clock(),
        )
        for table in made.tables
    ]


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


PROCEDURE = ExportUser()
