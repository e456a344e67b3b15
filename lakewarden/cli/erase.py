"""`lakewarden erase`: all that a user has, gone, and a certificate of it."""

from __future__ import annotations

import getpass

import typer

from lakewarden.cli.context import invocation
from lakewarden.cli.output import cell


def register(app: typer.Typer) -> None:
    app.command()(erase)


def erase(
    context: typer.Context,
    user: str = typer.Option(help="The user's id."),
    table: list[str] = typer.Option([], help="Only from this table, as namespace.table; may be repeated."),
    deep: bool = typer.Option(False, help="Read every object under every storage for what may be left."),
) -> None:
    """Remove all that a user has, search for what is left, and print the certificate."""
    call = invocation(context)
    with call.lake("erase") as lake:
        certificate = cell(lake.erase(user, table, deep=deep, asked_by=getpass.getuser()))
    assert isinstance(certificate, dict), "a dataclass becomes an object"
    shown = ("id", "user", "result", "tables", "objects_searched", "coincidences", "to_do")
    call.emit([certificate], empty="", columns=shown)
