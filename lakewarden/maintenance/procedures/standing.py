"""What of a plan still stands: the scopes whose table and place are those that were planned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lakewarden.base.connection import Location
from lakewarden.base.scope import Scope
from lakewarden.catalog.changes.engines import require_active
from lakewarden.catalog.model import Catalog
from lakewarden.catalog.report import ScopeReport
from lakewarden.catalog.target import ScopeTarget
from lakewarden.errors import LakewardenError, Moved, NotFound
from lakewarden.maintenance.plans.value import Applying, Plan, PlannedScope
from lakewarden.tables.warehouse import Warehouse, find_table


@dataclass(frozen=True)
class PlanStanding:
    """The lines that stand, with their targets."""

    applying: Applying
    targets: tuple[ScopeTarget, ...]

    @property
    def lines(self) -> tuple[PlannedScope, ...]:
        return tuple(self.applying.scopes.values())


def apply_standing(
    warehouse: Warehouse, plan: Plan, apply: Callable[[PlanStanding], list[ScopeReport]], *, in_log: bool = False
) -> list[ScopeReport]:
    """Applies the lines that stand, and reports the others as failed.

    Args:
        in_log: the operation only needs the log, and has no targets.
    """
    catalog, now = warehouse.catalog.read(), warehouse.clock()
    held: list[ScopeReport] = []
    found: dict[Scope, tuple[PlannedScope, ScopeTarget | None]] = {}
    for line in plan.scopes:
        try:
            found[line.scope] = (line, _resolved(warehouse, catalog, line, in_log=in_log))
        except LakewardenError as error:
            held.append(line.failed(plan.operation, error, now))
    if not found:
        return held
    applying = Applying(plan.plan_id, {scope: line for scope, (line, _) in found.items()})
    targets = tuple(target for _, target in found.values() if target is not None)
    return apply(PlanStanding(applying, targets)) + held


def _resolved(warehouse: Warehouse, catalog: Catalog, line: PlannedScope, *, in_log: bool) -> ScopeTarget | None:
    """The scope as the catalog has it now.

    Raises:
        Moved: it is another table, or is at another place; or the table no longer exists.
        FailedPrecondition: the engine of its namespace is disabled.
    """
    try:
        table = find_table(catalog, line.scope.table)
    except NotFound as error:
        raise Moved(f"{error.message}; plan again") from error
    require_active(catalog, table.name)
    if in_log:
        line.check_place(table.log_id, Location(warehouse.state.uri).below(warehouse.log(table).home).uri)
        return None
    target = warehouse.target(catalog, line.scope)
    line.check_place(table.log_id, target.uri)
    return target
