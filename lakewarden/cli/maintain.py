"""The commands `move`, which also cancels, and `tag`."""

from __future__ import annotations

import typer

from lakewarden.cli.context import emit_planned, emit_reports, invocation


def register(app: typer.Typer) -> None:
    for command in (move, tag):
        app.command()(command)


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
    user: str | None = typer.Option(None, help="Only this user's scope."),
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
