"""What of a plan still stands: the scopes whose table and place are those that were planned, or the plan as a whole."""

from __future__ import annotations

from dataclasses import dataclass

from lakewarden.base.connection import Location
from lakewarden.catalog.access import can
from lakewarden.catalog.changes.engines import require_active
from lakewarden.catalog.changes.objects import table_place
from lakewarden.catalog.model import Catalog, Table
from lakewarden.catalog.report import ScopePlan, ScopeReport
from lakewarden.catalog.target import ScopeTarget
from lakewarden.errors import LakewardenError, Moved, NotFound
from lakewarden.maintenance.plans.value import Plan
from lakewarden.tables.warehouse import Warehouse, find_table


@dataclass(frozen=True)
class StandingPlan:
    """The lines that stand, with their targets (none where an operation needs the log alone), and reports on the others."""

    lines: tuple[ScopePlan, ...]
    targets: tuple[ScopeTarget, ...]
    refused: list[ScopeReport]


def standing(warehouse: Warehouse, catalog: Catalog, plan: Plan, *, in_log: bool = False) -> StandingPlan:
    """Looks each scope up. `in_log`: the operation only needs the log, and has no targets."""
    now, lines, targets, refused = warehouse.clock(), [], [], []
    for line in {line.scope: line for line in plan.scopes}.values():
        try:
            target = _resolved(warehouse, catalog, line, in_log=in_log)
        except LakewardenError as error:
            refused.append(line.failed(plan.operation, error, now))
            continue
        lines.append(line)
        if target is not None:
            targets.append(target)
    return StandingPlan(tuple(lines), tuple(targets), refused)


def _resolved(warehouse: Warehouse, catalog: Catalog, line: ScopePlan, *, in_log: bool) -> ScopeTarget | None:
    """The scope as the catalog has it now.

    Raises:
        Moved: it is another table, or is at another place; or the table no longer exists.
        FailedPrecondition: the engine of its namespace is disabled.
    """
    try:
        table = find_table(catalog, line.scope.table)
    except NotFound as error:
        raise Moved(f"{error.message}; plan again") from error
    require_active(catalog, table.name.namespace)
    if in_log:
        line.check_place(table.log_id, Location(warehouse.state.uri).below(warehouse.log(table).home).uri)
        return None
    target = warehouse.target(catalog, line.scope)
    line.check_place(table.log_id, target.uri)
    return target


def check_standing(warehouse: Warehouse, plan: Plan) -> None:
    """Whether each table of the plan is the one that was planned for, at its place: it is done as a whole, or not at all.

    Raises:
        Moved: one is not.
    """
    catalog = warehouse.catalog.read()
    for line in plan.scopes:
        _check(warehouse, catalog, line)


def _check(warehouse: Warehouse, catalog: Catalog, line: ScopePlan) -> None:
    table = catalog.tables.get(line.scope.table)  # one whose drop was interrupted too
    if table is None:
        raise Moved(f"there is no table {line.scope.table} any more; plan again")
    line.check_place(table.log_id, place_of(warehouse, catalog, table, line.user).uri)


def place_of(warehouse: Warehouse, catalog: Catalog, table: Table, user: str | None) -> Location:
    """Where the table is, or the user's scope of it; rows of a STREAM table are in its log alone."""
    if not can(table.type, "cold tier"):
        return Location(warehouse.state.uri).below(warehouse.log(table).home)
    if user is not None:
        return warehouse.location_of(catalog, table, user)
    return Location(table_place(catalog.storages[table.options.storage_id], table, warehouse.base))
