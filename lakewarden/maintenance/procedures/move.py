"""Move: brings a table to another storage, as a whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from lakewarden.base.scope import TableName
from lakewarden.catalog.changes.moving import begin_move
from lakewarden.catalog.operations import Request
from lakewarden.catalog.report import ScopeReport
from lakewarden.errors import Conflict, InvalidArgument
from lakewarden.maintenance.move.run import Mover
from lakewarden.maintenance.plans.copies import check_move, plan_move
from lakewarden.maintenance.plans.store import DoneBy
from lakewarden.maintenance.plans.value import Plan
from lakewarden.maintenance.procedures.procedure import AsAWhole
from lakewarden.maintenance.procedures.workplace import Workplace
from lakewarden.maintenance.scopes import named_tables
from lakewarden.tables.warehouse import find_table


class MoveProcedure(AsAWhole):
    """Raises as `maintenance.move.run.Mover.move`."""

    def look(self, at: Workplace, request: Request) -> list[ScopeReport]:
        named_tables(at.warehouse.catalog.read(), request.tables)
        return [plan_move(at.warehouse, TableName.parse(request.tables[0]), request.to or "")]

    def run(self, at: Workplace, request: Request, job_id: str | None = None) -> list[ScopeReport]:
        return _move(at, request, job_id, lambda: None)

    def apply(self, at: Workplace, plan: Plan) -> DoneBy:
        check_move(at.warehouse, plan)
        reports = _move(at, plan.request, None, lambda: check_move(at.warehouse, plan))
        if failed := [report for report in reports if report.fault]:
            first = f"{failed[0].scope}: {failed[0].reason}"
            name = plan.request.tables[0]
            raise Conflict(f"{len(failed)} scopes of {name} could not be moved: {first}; apply the plan again to continue")
        return DoneBy("", f"{sum(report.outcome == 'done' for report in reports)} scopes were moved")

    def check_queued(self, at: Workplace, request: Request) -> None:
        if request.to is None:
            raise InvalidArgument("a move takes one table, with all its users, and the storage that it goes to")
        catalog = at.warehouse.catalog.read()
        begin_move(catalog, named_tables(catalog, request.tables)[0].name, request.to, at.warehouse.base)


def cancel_move(at: Workplace, table: TableName) -> list[ScopeReport]:
    """Raises as `maintenance.move.run.Mover.cancel`."""
    return _as_job(at, table, {"cancel": "true"}, None, Mover.cancel)


def _move(at: Workplace, request: Request, job_id: str | None, still: Callable[[], None]) -> list[ScopeReport]:
    """`still` is called while no other process can drop or move the table, and raises where it must not be moved."""
    named_tables(at.warehouse.catalog.read(), request.tables)
    storage_id = request.to or ""

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
            return work(Mover(at.warehouse, at.run, lease, table, id_))

    return at.as_job("move", {"tables": str(table), **parameters}, locked, job_id)


PROCEDURE = MoveProcedure()
