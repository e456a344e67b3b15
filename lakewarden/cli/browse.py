"""The commands that say what a warehouse has: `tables` and `users`."""

from __future__ import annotations

import typer

from lakewarden.catalog.model import Table
from lakewarden.cli.context import invocation
from lakewarden.cli.output import Row


def register(app: typer.Typer) -> None:
    app.command()(tables)
    app.command()(users)


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
