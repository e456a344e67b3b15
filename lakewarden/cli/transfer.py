"""The commands that carry rows and files into a warehouse: `load`, `ingest` and `file`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

import typer

from lakewarden.catalog.model import TableSchema
from lakewarden.cli.context import Invocation, invocation
from lakewarden.cli.output import Row, cell
from lakewarden.errors import AlreadyExists, InvalidArgument, RowsRejected
from lakewarden.log.once import Resume, check_resume
from lakewarden.tables.rows.files import FileRef
from lakewarden.tables.rows.text import value_of

if TYPE_CHECKING:
    from lakewarden.ingest.load_run import OnReject
    from lakewarden.sql.session_table import SessionTable


RESUME = typer.Option(
    None, "--resume", help="Where a repair left uncertain what was taken: repeat takes it again, skip counts it as taken."
)


def resume_of(text: str | None) -> Resume | None:
    """Raises InvalidArgument: it is not a way to go on."""
    return None if text is None else check_resume(text)


def register(app: typer.Typer) -> None:
    app.command()(load)
    app.command()(ingest)
    group = typer.Typer(help="Put, get, delete and list the files of FILE columns.", no_args_is_help=True)
    for command in (put, get, delete):
        group.command()(command)
    group.command("list")(list_files)
    app.add_typer(group, name="file")


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
        rows: list[Row] = [{"file": one.file, "line": one.line, "reason": one.reason} for one in error.rejects]
        call.emit(rows, empty="")
        raise
    call.emit([cast("Row", cell(made))], empty="", columns=("table", "files", "bytes", "rows", "rejected", "version"))


def _json_of(call: Invocation, paths: list[str]) -> str | None:
    """`--format json` is about printing first; it is about the files where their names do not end in another format."""
    from lakewarden.ingest.load_sources import format_of  # imports the catalog

    return "json" if call.as_json and not any(format_of(path) for path in paths) else None


def ingest(
    context: typer.Context,
    table: str = typer.Argument(help="A table that was created from a template, as namespace.table."),
    objects: list[str] | None = typer.Argument(
        None, help="Take these, whether or not they were taken before: keys below the source, paths, URIs or patterns."
    ),
    resume: str | None = RESUME,
    limit: int | None = typer.Option(None, min=1, help="Take at most this many new objects."),
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


_TABLE = typer.Argument(help="The table, as namespace.table.")
_COLUMN = typer.Argument(help="The column, of the type FILE.")
_KEY = typer.Option(..., help="NAME=VALUE of the row's primary key; repeat it for a key of several columns.")
_USER = typer.Option("root", help="The user whose rows of a USER table are meant.")
_ROLE = typer.Option("system", help="The role: anonymous, user, service, dba or system.")


def put(  # one parameter for each option
    context: typer.Context,
    table: str = _TABLE,
    column: str = _COLUMN,
    path: Path = typer.Argument(help="The local file."),
    key: list[str] = _KEY,
    value: list[str] = typer.Option([], "--set", help="NAME=VALUE of another column; other columns stay unchanged."),
    name: str = typer.Option("", help="The file's name; by default that of the local file."),
    mime: str | None = typer.Option(None, help="Its type, such as image/png; by default guessed from the name."),
    user: str = _USER,
    role: str = _ROLE,
) -> None:
    """Store a file and make a row refer to it; the row's previous file is removed."""
    call = invocation(context)
    data = _read(path)
    with _own(call, table, user, role) as own:
        row = _values(own.client.table.schema, [*key, *value])
        ref = own.put_file(row, column, data, name=name or path.name, mime=mime, mode="merge")
    call.emit([_row(ref)], empty="")


def get(
    context: typer.Context,
    table: str = _TABLE,
    column: str = _COLUMN,
    to: Path | None = typer.Argument(None, help="A new file to write; by default standard output."),
    key: list[str] = _KEY,
    user: str = _USER,
    role: str = _ROLE,
) -> None:
    """Write the file that a row refers to, after verifying its checksum."""
    call = invocation(context)
    with _own(call, table, user, role) as own:
        data = own.get_file(_values(own.client.table.schema, key), column)
    if to is None:
        sys.stdout.buffer.write(data)
        return
    _write(to, data)
    call.emit([{"path": str(to), "size": len(data)}], empty="")


def delete(
    context: typer.Context,
    table: str = _TABLE,
    column: str = _COLUMN,
    key: list[str] = _KEY,
    user: str = _USER,
    role: str = _ROLE,
) -> None:
    """Set a row's column to NULL and remove the file."""
    call = invocation(context)
    with _own(call, table, user, role) as own:
        values = _values(own.client.table.schema, key)
        own.delete_file(values, column)
    call.emit([{"key": cell(values), "column": column, "deleted": True}], empty="")


def list_files(context: typer.Context, table: str = _TABLE, user: str = _USER, role: str = _ROLE) -> None:
    """List the files that rows refer to."""
    call = invocation(context)
    with _own(call, table, user, role) as own:
        rows: list[Row] = [{"key": cell(found.key), "column": found.column, **_row(found.ref)} for found in own.files()]
    call.emit(rows, empty="no row refers to a file")


@contextmanager
def _own(call: Invocation, table: str, user: str, role: str) -> Iterator[SessionTable]:
    with call.lake("file") as lake:
        yield lake.session(user=user, role=role).table(table)


def _values(schema: TableSchema, given: list[str]) -> dict[str, object]:
    """`NAME=VALUE` as values of the columns' types.

    Raises:
        InvalidArgument: not NAME=VALUE, an unknown or repeated column, or not a valid number.
    """
    found: dict[str, object] = {}
    for text in given:
        name, separator, value = text.partition("=")
        column = schema.column(name)
        if not separator:
            raise InvalidArgument(f"{text!r} is not NAME=VALUE")
        if column is None:
            raise InvalidArgument(f"there is no column {name!r}; the columns are {', '.join(schema.names)}")
        if name in found:
            raise InvalidArgument(f"column {name!r} is given twice")
        found[name] = value_of(column, value)
    return found


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidArgument(f"cannot read {path}: {error.strerror}") from error


def _write(path: Path, data: bytes) -> None:
    try:
        with path.open("xb") as made:
            made.write(data)
    except FileExistsError as error:
        raise AlreadyExists(f"{path} already exists; name a new file") from error
    except OSError as error:
        raise InvalidArgument(f"cannot write {path}: {error.strerror}") from error


def _row(ref: FileRef) -> dict[str, str | int]:
    return {"id": ref.id, "name": ref.name, "size": ref.size, "mime": ref.mime, "sha256": ref.sha256, "path": ref.path}
