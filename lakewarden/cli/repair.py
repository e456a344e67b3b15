"""The command `repair`: repairs damaged write logs and tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from lakewarden.cli.context import invocation
from lakewarden.cli.output import Row, cell
from lakewarden.errors import ScopesFailed

if TYPE_CHECKING:
    from lakewarden.maintenance.repair.report import RepairReport


def register(app: typer.Typer) -> None:
    app.command()(repair)


def repair(
    context: typer.Context,
    table: str | None = typer.Argument(None, help="The table, as namespace.table; by default all tables."),
    user: str | None = typer.Option(None, help="Only this user's scopes."),
    restored: bool = typer.Option(False, "--restored", help="The warehouse or its data was just restored from a backup."),
    dry_run: bool = typer.Option(False, help="Show what is wrong and what would be done, and change nothing."),
) -> None:
    """Repair damaged write logs and tables, and report what was recovered and what is lost."""
    call = invocation(context)
    with call.lake("repair") as lake:
        found = lake.repair(table, user=user, dry_run=dry_run, restored=restored)
    shown = ("table", "user", "subject", "outcome", "rows_recovered", "rows_quarantined", "rows_lost", "reason")
    call.emit(
        [_row(one) for one in found],
        empty="nothing to repair: there are no scopes",
        columns=(*shown, "plan_id") if dry_run else shown,
    )
    faults = [(one.scope, one.fault) for one in found if one.fault]
    if faults:
        scope, first = faults[0]
        raise ScopesFailed(
            first.code, f"{len(faults)} of {len(found)} could not be repaired; the first, {scope}: {first.message}"
        )


def _row(one: RepairReport) -> Row:
    return {
        "table": str(one.scope.table),
        "user": one.scope.user,
        "subject": one.subject,
        "outcome": one.outcome,
        "reason": one.reason,
        "put_aside": cell(one.put_aside),
        "rows_recovered": one.rows_recovered,
        "rows_quarantined": one.rows_quarantined,
        "rows_lost": one.rows_lost,
        "writers_uncertain": cell(one.writers_uncertain),
        "version": one.version,
        **({"plan_id": one.plan_id} if one.plan_id else {}),
        "error": None if one.fault is None else {"code": one.fault.code, "message": one.fault.message},
    }
