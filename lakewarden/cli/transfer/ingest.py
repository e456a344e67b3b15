"""The command `ingest`."""

from __future__ import annotations

import typer

from lakewarden.cli.context import invocation
from lakewarden.cli.output import cell
from lakewarden.cli.transfer.resume import RESUME, resume_of


def register(app: typer.Typer) -> None:
    app.command()(ingest)


def ingest(
    context: typer.Context,
    table: str = typer.Argument(help="A table that was created from a template, as namespace.table."),
    objects: list[str] | None = typer.Argument(
        None, help="Take these, whether or not they were taken before: keys below the source, paths, URIs or patterns."
    ),
    resume: str | None = RESUME,
    limit: int | None = typer.Option(None, min=1, help="Take so many new objects at most."),
) -> None:
    """Take uploaded objects into a table: what is new in its source, or the objects that are named. Each counts once."""
    call = invocation(context)
    with call.lake("ingest") as lake:
        made = lake.ingest(table, objects or None, limit=limit, resume=resume_of(resume))
    shown = ("table", "ingested", "rows", "rejected", "left", "skipped", "batches", "version")
    found = cell(made)
    call.emit([found] if isinstance(found, dict) else [], empty="", columns=shown)
    if made.rejected:
        typer.echo(f"{made.table}_rejects says why some were rejected", err=True)
