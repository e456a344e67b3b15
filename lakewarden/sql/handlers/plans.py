"""Executes DRY RUN, which stores a plan and returns its id, and APPLY PLAN."""

from __future__ import annotations

import pyarrow as pa

from lakewarden.catalog.report import ScopeReport
from lakewarden.maintenance.plans.value import Plan
from lakewarden.maintenance.request import Request
from lakewarden.sql.context import Context
from lakewarden.sql.plan_rights import asks_of_request
from lakewarden.sql.results import Columns, ResultRows, Row, listing
from lakewarden.sql.statements.upkeep import ApplyPlan

_COLUMNS: Columns = {
    "user": pa.string(),
    "outcome": pa.string(),
    "version": pa.int64(),
    "reason": pa.string(),
    "plan_id": pa.string(),
}


def preview(context: Context, request: Request) -> Plan:
    """Raises as `Operator.preview`."""
    return context.services.operator().preview(request)


def planned(context: Context, request: Request) -> ResultRows:
    """A row for each scope: what would be done, or why nothing would."""
    return listing(_COLUMNS, [_row(report) for report in preview(context, request).reports])


def _row(report: ScopeReport) -> Row:
    fault = None if report.fault is None else f"{report.fault.code}: {report.fault.message}"
    return {
        "user": report.scope.user,
        "outcome": report.outcome,
        "version": report.version,
        "reason": fault or report.reason,
        "plan_id": report.plan_id,
    }


def applied(context: Context, statement: ApplyPlan) -> list[ScopeReport]:
    """Raises as `Operator.apply`."""

    def permit(request: Request) -> None:
        for ask in asks_of_request(context, request):
            context.door.allow(ask.act, ask.table)

    return context.services.operator().apply(statement.id, permit)
