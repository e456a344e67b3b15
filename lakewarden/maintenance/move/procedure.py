"""Move: brings a table to another storage, as a whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from lakewarden.base.scope import Scope, TableName
from lakewarden.catalog.access import require
from lakewarden.catalog.changes.moving import begin_move
from lakewarden.catalog.changes.objects import table_place
from lakewarden.catalog.model import Catalog
from lakewarden.catalog.report import ScopeReport
from lakewarden.errors import InvalidArgument, Moved
from lakewarden.maintenance.move import MoveOptions
from lakewarden.maintenance.move.run import Mover
from lakewarden.maintenance.plans.store import DoneBy
from lakewarden.maintenance.plans.value import Plan
from lakewarden.maintenance.procedure import AsAWhole
from lakewarden.maintenance.request import Request
from lakewarden.maintenance.scopes import check_none_failed, named_tables, scopes_of, table_location
from lakewarden.maintenance.workplace import Workplace
from lakewarden.storage.open import open_store
from lakewarden.tables.presence import Presence
from lakewarden.tables.warehouse import Warehouse, find_table

_TO = "target"


class MoveProcedure(AsAWhole):
    """Raises as `maintenance.move.run.Mover.move`."""

    def look(self, at: Workplace, catalog: Catalog, request: Request) -> list[ScopeReport]:
        """One report for the table as a whole; `skipped` where it is already there.

        Raises:
            NotFound: the table or the storage does not exist.
            Unsupported: a STREAM table.
            InUse: it is being moved elsewhere, or its place there is another table's.
            StorageUnavailable: one of the two storages is away.
        """
        named_tables(catalog, request.tables)
        warehouse, name, storage_id = at.warehouse, TableName.parse(request.tables[0]), _to(request) or ""
        table = find_table(catalog, name)
        require(table, "cold tier", "moves between storages")
        here = table_location(warehouse, catalog, name, table.options.storage_id)
        if begin_move(catalog, name, storage_id, warehouse.base).tables[name].move is None:
            return [ScopeReport(Scope(name), "move", "skipped", here, f"it is on storage {storage_id!r} already")]
        Presence.among(warehouse.root(catalog.storages[id_]) for id_ in (table.options.storage_id, storage_id)).check()
        files = open_store(here).list("")
        scopes = [scope for scope in scopes_of(warehouse, table, None) if warehouse.goes_along(catalog, table, scope.user)]
        metrics = {"scopes": len(scopes), "files": len(files), "bytes": sum(found.size for found in files)}
        report = ScopeReport(
            Scope(name),
            "move",
            "planned",
            here,
            reason=f"{len(scopes)} scopes go to storage {storage_id!r}: {len(files)} files of {metrics['bytes']} bytes",
            parameters={_TO: table_location(warehouse, catalog, name, storage_id).uri},
            metrics=metrics,
        )
        return [report]

    def run(self, at: Workplace, catalog: Catalog, request: Request, job_id: str | None = None) -> list[ScopeReport]:
        return _move(at, catalog, request, job_id, lambda: None)

    def apply(self, at: Workplace, plan: Plan) -> DoneBy:
        check_move(at.warehouse, plan)
        reports = _move(at, at.warehouse.catalog.read(), plan.request, None, lambda: check_move(at.warehouse, plan))
        check_none_failed(reports, f"of {plan.request.tables[0]} could not be moved", "apply the plan again to continue")
        return DoneBy("", f"{sum(report.outcome == 'done' for report in reports)} scopes were moved")

    def check_queued(self, at: Workplace, catalog: Catalog, request: Request) -> None:
        if (to := _to(request)) is None:
            raise InvalidArgument("a move takes one table, with all its users, and the storage that it goes to")
        begin_move(catalog, named_tables(catalog, request.tables)[0].name, to, at.warehouse.base)


def cancel_move(at: Workplace, table: TableName) -> list[ScopeReport]:
    """Raises as `maintenance.move.run.Mover.cancel`."""
    return _as_job(at, table, {"cancel": "true"}, None, Mover.cancel)


def _to(request: Request) -> str | None:
    return request.options_of(MoveOptions).to


def _move(at: Workplace, catalog: Catalog, request: Request, job_id: str | None, still: Callable[[], None]) -> list[ScopeReport]:
    """`still` is called while no other process can drop or move the table, and raises where it must not be moved."""
    named_tables(catalog, request.tables)
    storage_id = _to(request) or ""

    def moved(mover: Mover) -> list[ScopeReport]:
        still()
        return mover.move(storage_id)

    return _as_job(at, TableName.parse(request.tables[0]), {"to": storage_id}, job_id, moved)


def _as_job(
    at: Workplace,
    table: TableName,
    parameters: Mapping[str, str],
    job_id: str | None,
    work: Callable[[Mover], list[ScopeReport]],
) -> list[ScopeReport]:
    def locked(id_: str) -> list[ScopeReport]:
        find_table(at.warehouse.catalog.read(), table)  # no lock for a table that does not exist
        with at.warehouse.locks.create().hold(table.namespace, table.name) as lease:
            return work(Mover(at.warehouse, at.engine.run, lease, table, id_))

    return at.as_job("move", {"tables": str(table), **parameters}, locked, job_id)


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
        here = table_location(warehouse, catalog, table.name, table.options.storage_id).uri
        # At the target already: a move that this plan began was switched before it was interrupted.
        line.check_place(table.log_id, line.uri if here == target else here)


PROCEDURE = MoveProcedure()
