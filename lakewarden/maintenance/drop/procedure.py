"""Drop: removes a table with its data, as a whole."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from lakewarden.base.scope import Scope, TableName
from lakewarden.catalog.changes.pipelines import drop_blank
from lakewarden.catalog.model import Catalog
from lakewarden.catalog.report import ScopeReport
from lakewarden.errors import AlreadyExists, NotFound
from lakewarden.maintenance.drop.run import drop
from lakewarden.maintenance.plans.standing import check_standing, place_of
from lakewarden.maintenance.plans.store import DoneBy
from lakewarden.maintenance.plans.value import Plan
from lakewarden.maintenance.procedure import AsAWhole
from lakewarden.maintenance.request import Request
from lakewarden.maintenance.scopes import scopes_of
from lakewarden.maintenance.workplace import Workplace
from lakewarden.tables.warehouse import Warehouse, find_table


class Drop(AsAWhole):
    def look(self, at: Workplace, catalog: Catalog, request: Request) -> list[ScopeReport]:
        return [plan_drop(at.warehouse, catalog, TableName.parse(request.tables[0]))]

    def run(self, at: Workplace, catalog: Catalog, request: Request, job_id: str | None = None) -> list[ScopeReport]:
        return _drop(at, catalog, request, job_id, lambda: None)

    def apply(self, at: Workplace, plan: Plan) -> DoneBy:
        check_standing(at.warehouse, plan)
        reports = _drop(at, at.warehouse.catalog.read(), plan.request, None, lambda: check_standing(at.warehouse, plan))
        return DoneBy("", f"{sum(report.outcome == 'done' for report in reports)} scopes were emptied")


def drop_now(at: Workplace, name: TableName) -> None:
    """Raises:
    NotFound: there is no such table.
    """
    _drop(at, at.warehouse.catalog.read(), Request("drop", (str(name),)), None, lambda: None)


def end_drop(at: Workplace, name: TableName) -> None:
    """Removes what an interrupted drop left under a name, or a table that died before it appeared
    (maintenance/admin/create_table); nothing where a table is there, or none.

    Raises:
        Conflict: another process is at it.
    """

    def still() -> None:
        if not _is_hidden(at, name):
            raise AlreadyExists(f"table {name} has appeared meanwhile")

    if _is_hidden(at, name):
        with suppress(AlreadyExists, NotFound):
            _drop(at, at.warehouse.catalog.read(), Request("drop", (str(name),)), None, still)


def _is_hidden(at: Workplace, name: TableName) -> bool:
    table = at.warehouse.catalog.read().tables.get(name)
    return table is not None and table.dropping


def _drop(at: Workplace, catalog: Catalog, request: Request, job_id: str | None, still: Callable[[], None]) -> list[ScopeReport]:
    """`still` is called while no other process can drop or move the table, and raises where it must not be dropped."""
    table = TableName.parse(request.tables[0])
    if table in catalog.blanks:
        at.warehouse.catalog.change(lambda before: drop_blank(before, table))
        return []
    if table not in catalog.tables:
        raise NotFound(f"there is no table {table}")

    def work(id_: str) -> list[ScopeReport]:
        with at.warehouse.locks.create().hold(table.namespace, table.name) as lease:
            still()
            return drop(at.warehouse, at.engine.run, table, id_, lease)

    return at.as_job("drop", request.scopes, work, job_id)


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


PROCEDURE = Drop()
