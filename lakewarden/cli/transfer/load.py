"""The command `load`."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import typer

from lakewarden.cli.context import Invocation, invocation
from lakewarden.cli.output import Row, cell
from lakewarden.cli.transfer.resume import RESUME, resume_of
from lakewarden.errors import RowsRejected

if TYPE_CHECKING:
    from lakewarden.ingest.load.run import OnReject


def register(app: typer.Typer) -> None:
    app.command()(load)


def load(
    context: typer.Context,
    table: str = typer.Argument(help="The table, as namespace.table."),
    paths: list[str] = typer.Argument(help="Files, directories or patterns, on a disk or in a bucket."),
    file_format: str | None = typer.Option(
        None, "--format", help="csv, json or parquet; by default as the names end. `json` is also how to print."
    ),
    user: str | None = typer.Option(None, help="Whose rows they are (USER and STREAM tables)."),
    user_column: str | None = typer.Option(None, help="Instead of --user, the column that names each row's user."),
    on_reject: str = typer.Option("refuse", help="Rows that do not fit: refuse the load, stop at the first, or skip them."),
    once: str | None = typer.Option(None, help="The load's name: a table without a key takes it once, however often repeated."),
    resume: str | None = RESUME,
) -> None:
    """Load CSV, JSON lines or Parquet files into a table: all rows in one commit, or none."""
    call = invocation(context)
    try:
        with call.lake("load") as lake:
            made = lake.load(
                table,
                paths,
                format=file_format or _json_of(call, paths),
                user=user,
                user_column=user_column,
                on_reject=cast("OnReject", on_reject),
                once=once,
                resume=resume_of(resume),
            )
    except RowsRejected as error:
        _show_rejects(call, error)
        raise
    call.emit([cast("Row", cell(made))], empty="", columns=("table", "files", "bytes", "rows", "rejected", "version"))


def _json_of(call: Invocation, paths: list[str]) -> str | None:
    """`--format json` is about printing first; it is about the files where their names do not end in another format."""
    from lakewarden.ingest.load.sources import format_of  # imports the catalog

    return "json" if call.as_json and not any(format_of(path) for path in paths) else None


def _show_rejects(call: Invocation, error: RowsRejected) -> None:
    rows: list[Row] = [{"file": one.file, "line": one.line, "reason": one.reason} for one in error.rejects]
    call.emit(rows, empty="")
