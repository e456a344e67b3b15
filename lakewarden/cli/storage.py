"""`lakewarden storage`: the named places of table data, and presets of them."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

import typer

from lakewarden.base.connection import Connection
from lakewarden.catalog.model import Storage
from lakewarden.cli.context import invocation
from lakewarden.cli.output import Row
from lakewarden.errors import InvalidArgument, NotFound

# The presets of `storage_templates/`: data for `storage create --preset`, never code.
_PACKAGE = Path(__file__).parent.parent
_DIRECTORIES = (_PACKAGE / "storage_templates", _PACKAGE.parent / "storage_templates")
"""The presets' directories in the wheel and in a checkout."""


@dataclass(frozen=True)
class Preset:
    """The fields of a storage that a preset sets."""

    type: str = "filesystem"
    user_template: str = ""
    shared_template: str = ""


def preset_named(name: str) -> Preset:
    """The preset of that name; without a name, the defaults.

    Raises:
        NotFound: the preset does not exist.
    """
    if not name:
        return Preset()
    if not re.fullmatch(r"[a-z0-9_-]+", name):
        raise InvalidArgument(f"preset {name[:40]!r}: the names are {_names()}")
    for directory in _DIRECTORIES:
        path = directory / f"{name}.toml"
        if path.is_file():
            given = tomllib.loads(path.read_text(encoding="utf-8"))
            return Preset(given["type"], given["user_template"], given["shared_template"])
    raise NotFound(f"there is no preset {name!r}; the presets are {_names()}")


def _names() -> str:
    found = {path.stem for directory in _DIRECTORIES for path in directory.glob("*.toml")}
    return ", ".join(sorted(found))


_USER_TEMPLATE = typer.Option("", help="Path of a user's scope; default {namespace}/{tableName}/{userId}.")
_SHARED_TEMPLATE = typer.Option("", help="Path of a SHARED table; default {namespace}/{tableName}.")


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Create, alter, drop and list storages.", no_args_is_help=True)
    for command in (create, alter, adopt, drop):
        group.command()(command)
    group.command("list")(list_storages)
    app.add_typer(group, name="storage")


def create(  # noqa: PLR0913, PLR0917  # a parameter an option
    context: typer.Context,
    storage_id: str = typer.Argument(help="The storage's id: letters, digits, _ and -."),
    type: str = typer.Option("", help="filesystem (also: local), s3, gcs, azure; default filesystem, or the preset's."),
    base: str = typer.Option("", "--base-directory", "--base", help="Directory, or URI without credentials."),
    bucket: str = typer.Option("", help="Bucket of an object store, with or without its scheme."),
    region: str = typer.Option("", help="Region of an S3 bucket."),
    endpoint: str = typer.Option("", help="http(s)://host[:port] of a store that is not the platform's own."),
    path_style: bool | None = typer.Option(
        None,
        "--path-style/--no-path-style",
        help="Bucket in the path, or in the host.",
    ),
    credentials: str = typer.Option("", help="A reference: env:TENANT_A means TENANT_A_ACCESS_KEY_ID and so on."),
    preset: str = typer.Option("", help="Defaults for type and templates, from storage_templates/NAME.toml."),
    user_template: str = _USER_TEMPLATE,
    shared_template: str = _SHARED_TEMPLATE,
    name: str = typer.Option("", help="A name for people; by default the id."),
    description: str = typer.Option("", help="What it is for."),
) -> None:
    """Create a storage after testing writes, reads, lists and deletes there."""
    call = invocation(context)
    given = preset_named(preset)
    with call.lake("storage", create=True) as lake:
        made = lake.create_storage(
            storage_id,
            type=type or given.type,
            base=base,
            bucket=bucket,
            user_template=user_template or given.user_template,
            shared_template=shared_template or given.shared_template,
            name=name,
            description=description,
            connection=Connection(endpoint, region, path_style, credentials),
        )
    call.emit([_row(made)], empty="")


def alter(
    context: typer.Context,
    storage_id: str = typer.Argument(help="The storage's id."),
    user_template: str | None = typer.Option(None, help="A new path of users' scopes."),
    shared_template: str | None = typer.Option(None, help="A new path of SHARED tables."),
    name: str | None = typer.Option(None, help="A new name."),
    description: str | None = typer.Option(None, help="A new description."),
    endpoint: str | None = typer.Option(None, help="Another address of the same store; empty for the platform's own."),
    region: str | None = typer.Option(None, help="Region of an S3 bucket."),
    path_style: bool | None = typer.Option(None, "--path-style/--no-path-style", help="Bucket in the path, or in the host."),
    credentials: str | None = typer.Option(None, help="Another reference; empty for the platform's own chain."),
) -> None:
    """Change a storage after testing it with the new fields."""
    call = invocation(context)
    with call.lake("storage") as lake:
        changed = lake.alter_storage(
            storage_id,
            user_template=user_template,
            shared_template=shared_template,
            name=name,
            description=description,
            endpoint=endpoint,
            region=region,
            path_style=path_style,
            credentials=credentials,
        )
    call.emit([_row(changed)], empty="")


def adopt(context: typer.Context, storage_id: str = typer.Argument(help="The storage's id.")) -> None:
    """Accept the present content of a storage's place as the storage, after its disk or bucket was lost, or restored without
    its marker."""
    call = invocation(context)
    with call.lake("storage") as lake:
        adopted = lake.adopt_storage(storage_id)
    call.emit([_row(adopted)], empty="")


def drop(
    context: typer.Context,
    storage_id: str = typer.Argument(help="The storage's id."),
    if_exists: bool = typer.Option(False, "--if-exists", help="Do not fail if it does not exist."),
) -> None:
    """Drop a storage that no table uses."""
    call = invocation(context)
    with call.lake("storage") as lake:
        dropped = lake.drop_storage(storage_id, if_exists=if_exists)
    call.emit([{"storage_id": storage_id, "dropped": dropped}], empty="")


def list_storages(context: typer.Context) -> None:
    """List the storages."""
    call = invocation(context)
    with call.lake("storage") as lake:
        rows = [_row(storage) for storage in lake.storages()]
    call.emit(rows, empty="none")


def _row(storage: Storage) -> Row:
    connection = storage.connection
    return {
        "storage_id": storage.id,
        "storage_type": storage.type,
        "base_directory": storage.base,
        "user_tables_template": storage.user_template,
        "shared_tables_template": storage.shared_template,
        "storage_name": storage.name,
        "description": storage.description,
        "endpoint": connection.endpoint,
        "region": connection.region,
        "path_style": connection.path_style,
        "credentials": connection.credentials,
    }
