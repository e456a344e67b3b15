"""Move: brings a table to another storage, as a whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from lakewarden.base.scope import TableName
from lakewarden.catalog.changes.moving import begin_move
from lakewarden.catalog.model import Catalog
from lakewarden.catalog.report import ScopeReport
from lakewarden.errors import Conflict, InvalidArgument
from lakewarden.maintenance.move import MoveOptions
from lakewarden.maintenance.move.plan import check_move, plan_move
from lakewarden.maintenance.move.run import Mover
from lakewarden.maintenance.plans.store import DoneBy
from lakewarden.maintenance.plans.value import Plan
from lakewarden.maintenance.procedure import AsAWhole
from lakewarden.maintenance.request import Request
from lakewarden.maintenance.scopes import named_tables
from lakewarden.maintenance.workplace import Workplace
from lakewarden.tables.warehouse import find_table


class MoveProcedure(AsAWhole):
    """Raises as `maintenance.move.run.Mover.move`."""

    def look(self, at: Workplace, catalog: Catalog, request: Request) -> list[ScopeReport]:
        named_tables(catalog, request.tables)
        return [plan_move(at.warehouse, catalog, TableName.parse(request.tables[0]), _to(request) or "")]

    def run(self, at: Workplace, catalog: Catalog, request: Request, job_id: str | None = None) -> list[ScopeReport]:
        return _move(at, catalog, request, job_id, lambda: None)

    def apply(self, at: Workplace, plan: Plan) -> DoneBy:
        check_move(at.warehouse, plan)
        reports = _move(at, at.warehouse.catalog.read(), plan.request, None, lambda: check_move(at.warehouse, plan))
        if failed := [report for report in reports if report.fault]:
            first = f"{failed[0].scope}: {failed[0].reason}"
            name = plan.request.tables[0]
            raise Conflict(f"{len(failed)} scopes of {name} could not be moved: {first}; apply the plan again to continue")
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


PROCEDURE = MoveProcedure()
