"""The read-only commands: tables, users, status, history, tags, check."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from typing import TYPE_CHECKING

import msgspec
import typer

from lakewarden.catalog.model import Table
from lakewarden.cli.context import Invocation, invocation
from lakewarden.cli.output import Row, cell, row_of
from lakewarden.errors import ScopesFailed

if TYPE_CHECKING:
    from lakewarden.ingest.relays import RelayOutcome
    from lakewarden.maintenance.planning.fleet import Fleet, FleetTable, PlannedWork, StorageDebt, WeekWork


_SHOWN = 20
"""Scopes that a table shows, where it is not limited otherwise."""

_IN_TABLES = (
    "table",
    "scopes",
    "broken_scopes",
    "scopes_pending",
    "pending_rows",
    "oldest_pending_age",
    "rows",
    "files",
    "bytes",
    "last_commit",
)
_IN_SCOPES = (
    "table",
    "user",
    "pending_rows",
    "oldest_pending_age",
    "version",
    "files",
    "bytes",
    "last_operation",
    "reason",
    "error",
    "command",
)
"""Columns of the table form; JSON has all."""


def register(app: typer.Typer) -> None:
    for command in (tables, users, status, history, tags, check):
        app.command()(command)


def status(
    context: typer.Context,
    limit: int | None = typer.Option(
        None, min=0, help="The most scopes to show: 20 in a table, or all that are broken or pending."
    ),
    everything: bool = typer.Option(
        False, "--all", help="In JSON, too: each table in numbers, and scopes without pending rows that need maintenance."
    ),
) -> None:
    """Show what is broken, then the scopes with pending rows, worst first; and each table in numbers."""
    call = invocation(context)
    with call.lake("status") as lake:
        if call.as_json and not everything:
            call.emit([row_of(one) for one in lake.status(limit)], empty="")
            return
        found = lake.overview(limit if call.as_json else _SHOWN if limit is None else limit)
        topics = [_topic_row(each) for each in lake.topics.relay_status_of_every()]
        fleet = lake.fleet(found) if call.as_json else None
    scopes = [row_of(one) for one in found.scopes]
    if fleet is not None:
        rows = {one.name: row_of(table_row(one)) for one in fleet.tables}
        first, *others = [rows[one.table] for one in found.tables if one.table in rows] or [{}]
        whole = [{**first, "warehouse": cell(warehouse_row(fleet))}] if first else []
        call.emit([*whole, *others, *scopes, *topics], empty="")
        return
    tables = [row_of(one) for one in found.tables]
    if tables:
        call.emit(tables, empty="", columns=_IN_TABLES)
    if topics:
        call.emit(topics, empty="")
    if not any(one.pending_rows for one in found.scopes):
        call.emit([], empty="nothing is pending")
    if scopes:
        call.emit(scopes, empty="", columns=_IN_SCOPES)
    left = sum(one.scopes_pending for one in found.tables) - sum(one.pending_rows > 0 for one in found.scopes)
    if left > 0:
        call.emit([], empty=f"and {left} more with pending rows: --limit shows more")


def _topic_row(outcome: RelayOutcome) -> Row:
    """How far the topic of a table follows it, or why that is not known."""
    report, error = outcome.report, outcome.error
    numbers: Row = {"topic": "", "seq": None, "lag": None, "at": ""}
    if report is not None:
        numbers = {"topic": report.topic, "seq": report.seq, "lag": report.lag, "at": report.at}
    return {"table": str(outcome.table), **numbers, "error": "" if error is None else f"{error.code}: {error.message}"}


def history(
    context: typer.Context,
    table: str = typer.Argument(help="The table, as namespace.table."),
    user: str | None = typer.Option(None, help="The scope's user; required on a USER table."),
    limit: int = typer.Option(20, min=1, help="The most entries to show."),
    before_version: int | None = typer.Option(None, help="Only versions below this one: the cursor of the next page."),
) -> None:
    """Show a scope's commits, newest first."""
    call = invocation(context)
    with call.lake("history") as lake:
        entries = lake.table(table).history(user=user, limit=limit, before_version=before_version)
    shown = ("version", "timestamp", "operation", "parameters", "operation_metrics")
    rows = [row_of(entry) for entry in entries]
    call.emit(rows, empty="no commits", columns=shown)


def tags(
    context: typer.Context,
    table: str = typer.Argument(help="The table, as namespace.table."),
    user: str | None = typer.Option(None, help="Only this user's scope."),
) -> None:
    """Show the tags: names of versions that no vacuum removes."""
    call = invocation(context)
    with call.lake("tags") as lake:
        found = lake.tags(table, user=user)
    call.emit([{"table": table, "user": tag.user, "name": tag.name, "version": tag.version} for tag in found], empty="no tags")


def check(
    context: typer.Context,
    storage: str | None = typer.Argument(None, help="Only this storage, and the scopes on it."),
    extended: bool = typer.Option(
        False, "--extended", help="A row for each storage instead: what works there, how fast, how much it holds."
    ),
    quick: bool = typer.Option(
        False, "--quick", help="Open only scopes that failed a check before, or that the state does not know."
    ),
) -> None:
    """Check that every storage is reachable, every scope readable, log and tables consistent."""
    call = invocation(context)
    if extended:
        _check_storages(call, storage)
        return
    with call.lake("check") as lake:
        findings = lake.check(storage, quick=quick)
    call.emit([row_of(finding) for finding in findings], empty="nothing to check")
    bad = [(finding.subject, finding.code, finding.message) for finding in findings if not finding.passed]
    ScopesFailed.check(bad, len(findings), "checks failed")


def _check_storages(call: Invocation, storage: str | None) -> None:
    with call.lake("check") as lake:
        found = lake.health(storage)
    call.emit([row_of(one) for one in found], empty="nothing to check")
    ill = [one for one in found if one.status != "healthy"]
    if ill:
        raise ScopesFailed("STORAGE_UNAVAILABLE", f"storage {ill[0].storage_id} is {ill[0].status}: {ill[0].error}")


def tables(
    context: typer.Context,
    namespace: str | None = typer.Argument(None, help="Only the tables of this namespace."),
) -> None:
    """Show the tables: type, columns, key, storage, when they are flushed."""
    call = invocation(context)
    with call.lake("tables") as lake:
        found = lake.tables(namespace)
    call.emit([_row(table) for table in found], empty="no tables")


def users(
    context: typer.Context,
    table: str | None = typer.Option(None, help="Only the users who have rows in this table, as namespace.table."),
) -> None:
    """Show the users: those of the catalog with their roles, and those who have rows, with their tables."""
    call = invocation(context)
    with call.lake("users") as lake:
        if table is not None:
            lake.table(table)
        found = [user for user in lake.users() if table is None or table in map(str, user.tables)]
    call.emit(
        [{"user": one.user, "role": one.role, "tables": [str(name) for name in one.tables]} for one in found], empty="no users"
    )


def _row(table: Table) -> Row:
    options = table.options
    return {
        "table": str(table.name),
        "type": table.type,
        "columns": [f"{column.name} {column.type}" for column in table.schema.shown],
        "primary_key": list(table.schema.primary_key),
        "storage": options.storage_id,
        "flush_policy": None if options.flush_policy is None else str(options.flush_policy),
        "created_at": table.created_at,
    }


Figure = object
"""Of the fleet as rows for programs: what the page shows, figure by figure, as `status --all --format json` prints it."""


def table_row(one: FleetTable) -> dict[str, Figure]:
    """A table: the numbers of its status, and what the page adds to them. `figures` are the page's own: there a scope that
    failed a check is not among the broken ones, which `broken_scopes` counts together."""
    status, found = one.health.status, one.health
    return {
        **{field.name: getattr(status, field.name) for field in fields(status) if field.name != "totals"},
        "late_scopes": found.late_scopes,
        "failed_scopes": found.failed_scopes,
        "away_scopes": found.away_scopes,
        "figures": msgspec.to_builtins(one.look),
        "file_sizes": list(status.totals.file_sizes),
        "file_counts": list(status.totals.file_counts),
        "reasons": [asdict(each) | {"examples": list(map(str, each.examples))} for each in found.worst],
        "planned": _planned(one.planned),
        "debt": _debt(one.debt),
        "week": _week(one.week),
        "days": [
            {"day": each.day, "look": msgspec.to_builtins(each.look), "worst": msgspec.to_builtins(each.worst)}
            for each in one.days
            if each.looked_at
        ],
    }


def warehouse_row(fleet: Fleet) -> dict[str, Figure]:
    """The warehouse as a whole."""
    return {
        "warehouse": fleet.warehouse,
        "at": fleet.at,
        "verdict": fleet.verdict,
        "tables": len(fleet.tables),
        "figures": fleet.figures,
        "scopes_unknown": fleet.unseen,
        "file_sizes": list(fleet.grouped("file_sizes")),
        "file_counts": list(fleet.grouped("file_counts")),
        "planned": _planned(fleet.planned),
        "debt": _debt(fleet.debt),
        "week": _week(fleet.week),
        "jobs_unread": fleet.jobs_unread,
        "notes_unread": list(fleet.notes_unread),
        "tables_unread": fleet.unread["table"],
        "surveys": [msgspec.to_builtins(one) | {"at": one.looked_at} for one in fleet.surveys],
        "schedules": [msgspec.to_builtins(one) | {"last_at": one.last_time} for one in fleet.schedules],
        "schedules_at": fleet.schedules_at,
        "prices": msgspec.to_builtins(fleet.prices),
    }


def _planned(found: Iterable[PlannedWork]) -> dict[str, Mapping[str, Figure]]:
    return {one.operation: {name: value for name, value in asdict(one).items() if name != "operation"} for one in found}


def _debt(debt: StorageDebt) -> dict[str, Figure]:
    return asdict(debt) | {"next_on": None if debt.next_on is None else debt.next_on.isoformat()}


def _week(found: Iterable[WeekWork]) -> dict[str, Mapping[str, Figure]]:
    return {one.operation: {**one.amounts, "requests": one.requests, "dollars": one.dollars} for one in found}
