"""The commands that change tables: flush, compact, optimize, vacuum, restore, move, tag."""

from __future__ import annotations

import typer

from lakewarden.cli.context import emit_planned, emit_reports, invocation, split_names

_TABLES = typer.Argument(help="Tables as namespace.table.")
_USER = typer.Option(None, help="Only this user's scope.")
LOOK = typer.Option(False, "--look", help="Open each scope, also those in which nothing is to do by what the state knows.")


def register(app: typer.Typer) -> None:
    for command in (flush, compact, evict, optimize, vacuum, restore, move, tag):
        app.command()(command)


def flush(context: typer.Context, tables: list[str] = _TABLES, user: str | None = _USER) -> None:
    """Move pending rows from the write log into the scopes' Delta tables."""
    call = invocation(context)
    with call.lake("flush") as lake:
        reports = lake.flush(*tables, user=user)
    emit_reports(call, reports, empty="skipped: no pending writes")


def compact(context: typer.Context, tables: list[str] = _TABLES, user: str | None = _USER, look: bool = LOOK) -> None:
    """Fold each scope's newest small files into one (the tail rule of Storage Tiers)."""
    call = invocation(context)
    with call.lake("compact") as lake:
        reports = lake.compact(*tables, user=user, look=look)
    emit_reports(call, reports, empty="skipped: no scopes")


def evict(
    context: typer.Context,
    tables: list[str] = _TABLES,
    user: str | None = _USER,
    dry_run: bool = typer.Option(False, help="Show what would be removed, and remove nothing."),
) -> None:
    """Remove STREAM rows that have expired or exceed their scope's size."""
    call = invocation(context)
    with call.lake("evict") as lake:
        reports = lake.evict(*tables, user=user, dry_run=dry_run)
    emit_reports(call, reports, empty="skipped: nothing has expired")


def optimize(
    context: typer.Context,
    tables: list[str] = _TABLES,
    user: str | None = _USER,
    zorder: list[str] = typer.Option([], help="Columns to cluster by; repeat, or separate by commas."),
    look: bool = LOOK,
) -> None:
    """Pack each scope's small files to the target size, or cluster them by columns."""
    call = invocation(context)
    with call.lake("optimize") as lake:
        reports = lake.optimize(*tables, user=user, zorder=split_names(zorder), look=look)
    emit_reports(call, reports, empty="skipped: no scopes")


def vacuum(
    context: typer.Context,
    tables: list[str] = _TABLES,
    user: str | None = _USER,
    retain: float | None = typer.Option(None, help="Hours to keep removed files; below 168 needs --force."),
    force: bool = typer.Option(False, help="Allow a retention below 168 hours."),
    ignore_checks: bool = typer.Option(False, "--ignore-checks", help="Vacuum scopes that failed a check, too."),
    look: bool = LOOK,
    dry_run: bool = typer.Option(False, help="List what would be deleted, and delete nothing."),
) -> None:
    """Delete files that no version inside the retention needs."""
    call = invocation(context)
    with call.lake("vacuum") as lake:
        reports = lake.vacuum(
            *tables, user=user, retain_hours=retain, force=force, ignore_checks=ignore_checks, look=look, dry_run=dry_run
        )
    emit_reports(call, reports, empty="skipped: no scopes")


def restore(
    context: typer.Context,
    table: str = typer.Argument(help="The table, as namespace.table."),
    version: int | None = typer.Option(None, help="The Delta version to go back to; on a USER table with --user."),
    timestamp: str | None = typer.Option(None, help="A time, ISO 8601; without an offset it is UTC."),
    user: str | None = _USER,
    discard_pending: bool = typer.Option(False, help="Drop the scope's pending rows instead of flushing them first."),
    dry_run: bool = typer.Option(False, help="Show which rows and files would change, and change nothing."),
) -> None:
    """Restore the rows of scopes to an earlier version; the schema stays."""
    from lakewarden.operations.restore.scope import parse_moment  # imports Delta, which other commands do not need

    call = invocation(context)
    with call.lake("restore") as lake:
        reports = lake.restore(
            table,
            user=user,
            version=version,
            timestamp=None if timestamp is None else parse_moment(timestamp),
            discard_pending=discard_pending,
            dry_run=dry_run,
        )
    emit_reports(call, reports, empty="skipped: no scopes")


def move(
    context: typer.Context,
    table: str = typer.Argument(help="The table, as namespace.table."),
    to: str | None = typer.Option(None, help="The storage to move to."),
    cancel: bool = typer.Option(False, "--cancel", help="Cancel a move that has not switched yet."),
    dry_run: bool = typer.Option(False, help="Show what would be moved, and change nothing."),
) -> None:
    """Move a table to another storage, while reads and writes continue; repeat it to continue an interrupted move."""
    call = invocation(context)
    if cancel == (to is not None):
        raise typer.BadParameter("give either --to STORAGE, or --cancel")
    if dry_run:
        if cancel:
            raise typer.BadParameter("--dry-run shows a move --to STORAGE, and not what --cancel does")
        with call.lake("move") as lake:
            emit_planned(call, lake.plan("move", table, to=to), empty="skipped: there is nothing to move")
        return
    with call.lake("move") as lake:
        reports = lake.cancel_move(table) if to is None else lake.move(table, to)
    emit_reports(call, reports, empty="skipped: there is nothing to move")


def tag(
    context: typer.Context,
    table: str = typer.Argument(help="The table, as namespace.table."),
    name: str = typer.Option(help="The tag's name."),
    user: str | None = _USER,
    version: int | None = typer.Option(None, help="The version to name; by default the newest."),
    drop: bool = typer.Option(False, "--drop", help="Remove the tag instead; the next vacuum may remove the version."),
) -> None:
    """Name a version of a scope, so that no vacuum removes it."""
    call = invocation(context)
    if drop and version is not None:
        raise typer.BadParameter("--drop removes a tag by its name: omit --version")
    with call.lake("tag") as lake:
        if drop:
            lake.drop_tag(table, name, user=user)
            call.emit([], empty=f"tag {name} removed")
            return
        made = lake.tag(table, name, user=user, version=version)
    call.emit([{"table": table, "user": user, "name": made.name, "version": made.version}], empty="")
