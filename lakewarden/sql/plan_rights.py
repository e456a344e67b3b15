"""The rights that applying a plan needs: those of the operation's own statement. Knowing a plan's id grants nothing."""

from __future__ import annotations

from collections.abc import Iterator

from lakewarden.base.scope import TableName
from lakewarden.catalog.access import TableOf
from lakewarden.catalog.operations import SPECS
from lakewarden.errors import Unsupported
from lakewarden.maintenance.plans.store import PlanLog
from lakewarden.maintenance.request import Request
from lakewarden.sql.context import Context
from lakewarden.sql.statement_spec import Ask
from lakewarden.sql.statements.upkeep import ApplyPlan
from lakewarden.tables.warehouse import live_tables


def asks_of_plan(context: Context, statement: ApplyPlan) -> Iterator[Ask]:
    """The rights to check before a plan is applied; empty if the plan does not exist, which applying it reports."""
    request = PlanLog(context.warehouse.state, context.warehouse.erasures).request(statement.id)
    if request is not None:
        yield from asks_of_request(context, request)


def asks_of_request(context: Context, request: Request) -> Iterator[Ask]:
    """Raises:
    Unsupported: the operation has no statement.
    """
    spec = SPECS[request.operation]
    if spec.act is None:
        raise Unsupported(f"{request.operation} has no SQL statement; apply its plan with `lakewarden apply`")
    names = [TableName.parse(name) for name in request.tables] or [table.name for table in live_tables(context.catalog)]
    for name in names:
        table = context.guarded(name) or TableOf(name, "USER")
        own = table.type == "SHARED" or request.user == context.principal.user
        yield Ask("write" if own and spec.own else spec.act, table)
