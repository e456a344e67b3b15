"""`lakewarden storage`: the named places of table data."""

from __future__ import annotations

import typer

from lakewarden.catalog.model import Storage
from lakewarden.cli.context import invocation
from lakewarden.cli.output import Row

_USER_TEMPLATE = typer.Option("", help="Path of a user's scope; default {namespace}/{tableName}/{userId}.")
_SHARED_TEMPLATE = typer.Option("", help="Path of a SHARED table; default {namespace}/{tableName}.")


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Create, alter, drop and list storages.", no_args_is_help=True)
    for command in (create, alter, drop):
        group.command()(command)
    group.command("list")(list_storages)
    app.add_typer(group, name="storage")


def create(
    context: typer.Context,
    storage_id: str = typer.Argument(help="The storage's id: letters, digits, _ and -."),
    type: str = typer.Option("filesystem", help="filesystem (also: local), s3, gcs, azure."),
    base: str = typer.Option(help="Base directory or URI, without credentials."),
    user_template: str = _USER_TEMPLATE,
    shared_template: str = _SHARED_TEMPLATE,
    name: str = typer.Option("", help="A name for people; the id where it is left out."),
    description: str = typer.Option("", help="What it is for."),
) -> None:
    """Create a storage, after trying to write, read, list and delete there."""
    call = invocation(context)
    with call.lake("storage") as lake:
        made = lake.create_storage(
            storage_id,
            type=type,
            base=base,
            user_template=user_template,
            shared_template=shared_template,
            name=name,
            description=description,
        )
    call.emit([_row(made)], empty="")


def alter(
    context: typer.Context,
    storage_id: str = typer.Argument(help="The storage's id."),
    user_template: str | None = typer.Option(None, help="A new path of users' scopes."),
    shared_template: str | None = typer.Option(None, help="A new path of SHARED tables."),
    name: str | None = typer.Option(None, help="A new name."),
    description: str | None = typer.Option(None, help="A new description."),
) -> None:
    """Change a storage's name, description or templates."""
    call = invocation(context)
    with call.lake("storage") as lake:
        changed = lake.alter_storage(
            storage_id, user_template=user_template, shared_template=shared_template, name=name, description=description
        )
    call.emit([_row(changed)], empty="")


def drop(context: typer.Context, storage_id: str = typer.Argument(help="The storage's id.")) -> None:
    """Drop a storage that no table uses."""
    call = invocation(context)
    with call.lake("storage") as lake:
        lake.drop_storage(storage_id)
    call.emit([{"storage_id": storage_id, "dropped": True}], empty="")


def list_storages(context: typer.Context) -> None:
    """List the storages."""
    call = invocation(context)
    with call.lake("storage") as lake:
        rows = [_row(storage) for storage in lake.storages()]
    call.emit(rows, empty="none")


def _row(storage: Storage) -> Row:
    return {
        "storage_id": storage.id,
        "storage_type": storage.type,
        "base_directory": storage.base,
        "user_tables_template": storage.user_template,
        "shared_tables_template": storage.shared_template,
        "storage_name": storage.name,
        "description": storage.description,
    }
