"""The command `sql`: runs statements from the command line, a file or standard input; prints JSON lines or tables."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from lakewarden.cli.context import invocation
from lakewarden.cli.output import emit, write_events
from lakewarden.cli.output import follow as follow_subscription
from lakewarden.client import Lakehouse
from lakewarden.errors import InvalidArgument
from lakewarden.tables.freshness import check_freshness

if TYPE_CHECKING:
    from lakewarden.sql.results import Result


def register(app: typer.Typer) -> None:
    app.command()(sql)


def sql(
    context: typer.Context,
    statements: str | None = typer.Argument(None, help="Statements, separated by semicolons; else a file or standard input."),
    script: Path | None = typer.Option(None, "-f", "--script", help="Read the statements from this file."),
    file: list[str] = typer.Option([], help="NAME=PATH: the file that FILE('NAME') in VALUES means; may be repeated."),
    user: str = typer.Option("root", help="The session's user: it sees this user's scope of every USER table."),
    role: str = typer.Option("system", help="The session's role: anonymous, user, service, dba or system."),
    freshness: str | None = typer.Option(
        None,
        help="The rows that queries see: strong (all), eventual (those in Delta) or oltp_only (those in the write log alone).",
    ),
    follow: bool = typer.Option(False, "--follow", help="Stay, and print each event of a SUBSCRIBE as a line of JSON."),
    interval: float = typer.Option(0.5, help="Seconds between two polls of --follow."),
    no_wait: bool = typer.Option(False, "--no-wait", help="Leave the jobs that are started to Dagster, or to `jobs run`."),
) -> None:
    """Run SQL. Syntax and rights of the whole text are checked before any of it runs."""
    call = invocation(context)
    text, files = _text(statements, script), _named(file)
    if follow:
        with Lakehouse.open(call.warehouse) as lake:
            follow_subscription(lake, text, user, role, interval)
        return
    source = context.get_parameter_source("user")
    unnamed = source is not None and source.name == "DEFAULT"
    with call.lake("sql", create=True) as lake:
        show = _json if call.as_json else partial(_table, unnamed=user if unnamed else None)
        chosen = None if freshness is None else check_freshness(freshness.lower())
        lake.sql(text, user=user, role=role, freshness=chosen, wait=not no_wait, files=files, each=show)


def _text(statements: str | None, script: Path | None) -> str:
    if statements is not None and script is not None:
        raise typer.BadParameter("give the statements or a file, not both")
    if statements is not None:
        return statements
    if script is None:
        if sys.stdin.isatty():
            raise typer.BadParameter("give statements, a file with -f, or standard input")
        return _decoded(sys.stdin.buffer.read(), "standard input")
    try:
        return _decoded(script.read_bytes(), str(script))
    except OSError as error:
        raise typer.BadParameter(f"cannot read {script}: {error.strerror}") from error


def _named(files: list[str]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for text in files:
        name, separator, path = text.partition("=")
        if not (name and separator and path):
            raise typer.BadParameter(f"{text!r} is not NAME=PATH")
        if name in found:
            raise typer.BadParameter(f"two files are named {name!r}")
        found[name] = Path(path)
    return found


def _decoded(data: bytes, where: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InvalidArgument(f"{where} is not UTF-8 text: {error.reason} at byte {error.start}") from error


def _json(result: Result) -> None:
    from lakewarden.client.answers import answer  # imports Arrow, which a command that only prints its help does not need
    from lakewarden.sql.results import Events  # as above

    if isinstance(result, Events):
        write_events(result.events, as_json=True)
        return
    sys.stdout.write(json.dumps(answer(result), ensure_ascii=False) + "\n")
    sys.stdout.flush()


def _table(result: Result, unnamed: str | None) -> None:
    """Prints a result for people. `unnamed` is the session's user where the command did not name one."""
    from lakewarden.base.json_values import json_rows  # as above
    from lakewarden.sql.results import AffectedRows, Events, ResultRows

    match result:
        case Events():
            write_events(result.events, as_json=False)
        case ResultRows():
            emit(list(json_rows(result.to_pylist())), False, empty="no rows", columns=result.columns)
            if unnamed is not None and result.one_users:
                tables = " and ".join(result.one_users)
                sys.stderr.write(f"{tables}: each user's rows are apart, and these are {unnamed}'s; --user names another\n")
        case AffectedRows():
            if result.returned is not None:
                emit(list(json_rows(result.returned.to_pylist())), False, empty="no rows", columns=result.returned.columns)
            sys.stdout.write(f"{result.rows} {'row' if result.rows == 1 else 'rows'} affected\n")
            for warning in result.warnings:
                sys.stderr.write(f"warning: {warning}\n")
        case _:
            sys.stdout.write(f"{result.message}\n")
    sys.stdout.flush()
