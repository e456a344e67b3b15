"""The commands for all data of a user: `export`, `import`, `erase` with a certificate, and `erasures`."""

from __future__ import annotations

import getpass

import typer

from lakewarden.cli.context import emit_reports, invocation, planned
from lakewarden.cli.operations import options_of, taking_options
from lakewarden.cli.output import Row, row_of

_SHOWN = ("id", "user", "result", "finished_at", "tables", "objects_searched", "coincidences", "to_do", "unseen")


def register(app: typer.Typer) -> None:
    app.command()(taking_options(export, "export"))
    app.command("import")(import_user)
    app.command()(taking_options(erase, "erase"))
    app.command()(erasures)


def export(
    context: typer.Context,
    user: str = typer.Option(help="The user's id."),
    to: str = typer.Option(help="A directory or URI, empty or with an earlier export of the same user."),
    dry_run: bool = typer.Option(False, help="Show what would be copied, and copy nothing."),
    **given: object,
) -> None:
    """Copy all data of a user, as Delta tables with their history and a manifest of checksums."""
    call = invocation(context)
    with call.lake("export") as lake:
        if dry_run:
            emit_reports(call, planned(lake.plan("export", user=user, to=to, **options_of(given))), empty="the user has no data")
            return
        made = lake.export(user, to, **options_of(given))
    rows: list[Row] = [
        {"table": table.name, "uri": f"{made.uri}/{table.path}", "version": table.version, "rows": table.rows}
        for table in made.tables
    ]
    call.emit(rows, empty=f"the user has no data; the manifest is at {made.uri}")


def import_user(
    context: typer.Context,
    source: str = typer.Option(..., "--from", help="The export's directory or URI."),
    user: str = typer.Option(help="The user who gets the rows."),
    table: list[str] = typer.Option([], help="Only this table, as namespace.table; may be repeated."),
) -> None:
    """Write the rows of an export into the tables of this warehouse."""
    call = invocation(context)
    with call.lake("import") as lake:
        counts = lake.import_user(source, user, table)
    call.emit([{"table": name, "rows": rows} for name, rows in counts.items()], empty="the export holds no rows")


def erase(
    context: typer.Context,
    user: str = typer.Option(help="The user's id."),
    table: list[str] = typer.Option([], help="Only from this table, as namespace.table; may be repeated."),
    dry_run: bool = typer.Option(False, help="Show what would be removed, and remove nothing."),
    queue: bool = typer.Option(False, help="Only queue it, as for Dagster's erase_job, and print the keyed hash that names it."),
    **given: object,
) -> None:
    """Remove all data of a user, search for remains, and print the certificate."""
    call, options = invocation(context), options_of(given)
    if dry_run and queue:
        raise typer.BadParameter("give either --dry-run or --queue")
    with call.lake("erase") as lake:
        if dry_run:
            emit_reports(call, planned(lake.plan("erase", *table, user=user, **options)), empty="no table has users")
        elif queue:
            request = lake.request_erasure(user, table, asked_by=getpass.getuser(), **options)
            call.emit([{"request": request}], empty="")
        else:
            certificate = lake.erase(user, table, asked_by=getpass.getuser(), **options)
            call.emit([row_of(certificate)], empty="", columns=_SHOWN)


def erasures(
    context: typer.Context,
    user: str | None = typer.Option(None, help="Only of this user, whose keyed hash is in the certificates."),
) -> None:
    """Show the certificates of erasures, newest first; with --format json in full."""
    call = invocation(context)
    with call.lake("erasures") as lake:
        found = lake.erasures(user)
    call.emit([row_of(certificate) for certificate in reversed(found)], empty="no erasures", columns=_SHOWN)
