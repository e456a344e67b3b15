"""Executes the statements that define namespaces, tables, views, storages and users."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import partial

from lakewarden.base.connection import Connection
from lakewarden.catalog.access import parse_role
from lakewarden.catalog.changes.objects import describe_namespace
from lakewarden.catalog.changes.users import UserChange
from lakewarden.catalog.evolution import AddColumn, AddColumns, Alteration, SetOptions
from lakewarden.catalog.model import StorageMode, Table, User
from lakewarden.catalog.options import check_type, ignored_options
from lakewarden.errors import AlreadyExists, InvalidArgument
from lakewarden.maintenance.admin.alter_table import alter
from lakewarden.maintenance.admin.beginning import widen
from lakewarden.maintenance.admin.create_table import make_table, new_table
from lakewarden.maintenance.admin.namespaces import make_namespace, make_view, remove_namespace, remove_view
from lakewarden.maintenance.admin.storages import (
    StorageChange,
    StorageDeclaration,
    change_storage,
    make_storage,
    new_storage,
    remove_storage,
)
from lakewarden.maintenance.admin.users import change_user, remove_user
from lakewarden.maintenance.admin.users import create_user as make_user
from lakewarden.maintenance.drop import drop_now, end_drop
from lakewarden.maintenance.request import new_request
from lakewarden.sql.context import Context
from lakewarden.sql.handlers.operate import planned
from lakewarden.sql.handlers.tables import check_there, create_dynamic, declared, is_dynamic, options_of
from lakewarden.sql.relations import read_by_view
from lakewarden.sql.results import ResultRows, StatementDone
from lakewarden.sql.statements.definitions import (
    AlterNamespace,
    AlterStorage,
    AlterTable,
    AlterUser,
    CreateNamespace,
    CreateStorage,
    CreateTable,
    CreateUser,
    CreateView,
    DropNamespace,
    DropStorage,
    DropTable,
    DropUser,
    DropView,
    SetProperties,
    TableChange,
    UseNamespace,
)
from lakewarden.tables.warehouse import check_namespace


def create_namespace(context: Context, statement: CreateNamespace) -> StatementDone:
    if statement.if_not_exists and statement.name in context.catalog.namespaces:
        return StatementDone(f"namespace {statement.name} already exists")
    make_namespace(context.warehouse, statement.name)
    return StatementDone(f"namespace {statement.name} created")


def drop_namespace(context: Context, statement: DropNamespace) -> StatementDone:
    if statement.if_exists and statement.name not in context.catalog.namespaces:
        return StatementDone(f"skipped: there is no namespace {statement.name}")
    drop = partial(drop_now, context.services.operator()) if statement.cascade else None
    remove_namespace(context.warehouse, statement.name, drop)
    return StatementDone(f"namespace {statement.name} dropped")


def alter_namespace(context: Context, statement: AlterNamespace) -> StatementDone:
    context.warehouse.catalog.change(lambda before: describe_namespace(before, statement.name, statement.description))
    return StatementDone(f"namespace {statement.name} altered")


def use_namespace(context: Context, statement: UseNamespace) -> StatementDone:
    check_namespace(context.catalog, statement.name)
    return StatementDone(f"namespace {statement.name} is in use")


def create_table(context: Context, statement: CreateTable) -> StatementDone:
    name = context.named(statement.table)
    catalog = context.catalog
    if statement.if_not_exists and name in catalog.tables and not catalog.tables[name].dropping:
        return StatementDone(f"table {name} already exists")
    if name in catalog.tables and catalog.tables[name].dropping:
        end_drop(context.services.operator(), name)
    if is_dynamic(context, statement):
        return create_dynamic(context, statement, name)
    kind = check_type(statement.type)
    options = options_of(statement.options)
    key, partition_by = declared(statement, statement.primary_key), declared(statement, statement.partition_by)
    at_once = context.rules == "k3"
    table = new_table(context.warehouse, name, kind, statement.columns, key, options, partition_by)
    make_table(context.warehouse, table, at_once=at_once)
    ignored = ignored_options(kind, options)
    note = f"; {', '.join(ignored)} {'has' if len(ignored) == 1 else 'have'} no effect on a {kind} table" if ignored else ""
    return StatementDone(f"table {name} created{note}")


def alter_table(context: Context, statement: AlterTable) -> StatementDone:
    """Raises:
    InvalidArgument: several columns, which only K3's rules add by one statement.
    """
    table = context.table(statement.table)
    if isinstance(statement.change, AddColumns) and context.rules == "native":
        raise InvalidArgument(
            f"ALTER TABLE {table.name}: a statement makes one change; `Lakehouse.alter_table` takes several columns"
        )
    change = _change_of(table, statement.change)
    altered = alter(context.warehouse, table.name, change)
    if context.rules == "k3" and altered.type == "SHARED":
        widen(context.warehouse, context.warehouse.catalog.read(), altered)
    return StatementDone(
        f"table {table.name} unchanged: no changes needed" if altered == table else f"table {table.name} altered"
    )


def _change_of(table: Table, change: TableChange) -> Alteration:
    """The change with the column's name as declared: names in SQL ignore case."""
    match change:
        case SetProperties(properties):
            return SetOptions(options_of(properties))
        case AddColumn() | AddColumns():
            return change
        case _:
            declared = {name.lower(): name for name in table.schema.names}
            return replace(change, name=declared.get(change.name.lower(), change.name))


def drop_table(context: Context, statement: DropTable) -> StatementDone | ResultRows:
    name = context.named(statement.table)
    catalog = context.catalog
    if name in catalog.views:
        raise InvalidArgument(f"{name} is a view; drop it by DROP VIEW {name}")
    table = catalog.tables.get(name) or catalog.blanks.get(name)
    if table is None and statement.if_exists:
        return StatementDone(f"skipped: there is no table {name}")
    if table is not None and statement.type not in (None, table.type):
        raise InvalidArgument(f"{name} is a {table.type} table, not a {statement.type} one")
    if statement.dry_run:
        return planned(context, new_request("drop", (str(name),)))
    if table is not None and not statement.if_exists:
        check_there(context, table)
    drop_now(context.services.operator(), name)
    return StatementDone(f"table {name} dropped")


def create_view(context: Context, statement: CreateView) -> StatementDone:
    name = context.named(statement.view)
    if statement.if_not_exists and name in context.catalog.views:
        return StatementDone(f"view {name} already exists")
    make_view(context.warehouse, name, statement.text, read_by_view, replacing=statement.or_replace)
    return StatementDone(f"view {name} created")


def drop_view(context: Context, statement: DropView) -> StatementDone:
    name = context.named(statement.view)
    if statement.if_exists and name not in context.catalog.views:
        return StatementDone(f"skipped: there is no view {name}")
    remove_view(context.warehouse, name)
    return StatementDone(f"view {name} dropped")


def create_storage(context: Context, statement: CreateStorage) -> StatementDone:
    if statement.id in context.catalog.storages:
        raise AlreadyExists(f"storage {statement.id!r} already exists")
    config = _config(statement.config)
    declared = StorageDeclaration(
        statement.id,
        statement.type,
        statement.base,
        statement.bucket,
        Connection(config.endpoint or "", statement.region, config.path_style, statement.credentials),
        statement.user_template,
        statement.shared_template,
        statement.name,
        statement.description,
    )
    make_storage(context.warehouse, new_storage(declared, context.warehouse.clock()))
    return StatementDone(f"storage {statement.id} created")


def alter_storage(context: Context, statement: AlterStorage) -> StatementDone:
    config = _config(statement.config or "")
    change = StorageChange(
        user_template=statement.user_template,
        shared_template=statement.shared_template,
        name=statement.name,
        description=statement.description,
        endpoint=config.endpoint,
        region=statement.region,
        path_style=config.path_style,
        credentials=statement.credentials,
    )
    change_storage(context.warehouse, statement.id, change)
    return StatementDone(f"storage {statement.id} altered")


@dataclass(frozen=True)
class _Config:
    """A storage's CONFIG; None for what is not given."""

    endpoint: str | None = None
    path_style: bool | None = None


def _config(text: str) -> _Config:
    """Reads CONFIG. No message repeats a value: it may be a misplaced secret.

    Raises:
        InvalidArgument: it is not a JSON object, or has a key or value that no storage takes.
    """
    if not text:
        return _Config()
    try:
        said = json.loads(text)
    except ValueError:
        raise InvalidArgument(f"CONFIG is not valid JSON; {_CONFIG_FORM}") from None
    if not isinstance(said, dict) or not said.keys() <= {"endpoint", "path_style"}:
        raise InvalidArgument(f"CONFIG is a JSON object with the keys endpoint and path_style only; {_CONFIG_FORM}")
    endpoint, path_style = said.get("endpoint"), said.get("path_style")
    if not isinstance(endpoint, str | None) or not isinstance(path_style, bool | None):
        raise InvalidArgument(f"CONFIG: the endpoint is text, and path_style true or false; {_CONFIG_FORM}")
    return _Config(endpoint, path_style)


_CONFIG_FORM = """the form is CONFIG '{"endpoint": "https://host:9000", "path_style": true}'"""


def drop_storage(context: Context, statement: DropStorage) -> StatementDone:
    if statement.if_exists and statement.id not in context.catalog.storages:
        return StatementDone(f"skipped: there is no storage {statement.id}")
    remove_storage(context.warehouse, statement.id)
    return StatementDone(f"storage {statement.id} dropped")


def create_user(context: Context, statement: CreateUser) -> StatementDone:
    now = context.warehouse.clock()
    user = User(
        statement.name,
        parse_role(statement.role),
        statement.auth,
        created_at=now,
        updated_at=now,
        auth_data=_identity(statement.secret) if statement.auth == "oauth" else None,
        email=statement.email,
        storage_mode=_storage_mode(statement.storage_mode or "table"),
        storage_id=statement.storage_id,
    )
    make_user(context.warehouse, context.door, user, statement.secret if statement.auth == "password" else None)
    return StatementDone(f"user {statement.name} created")


def _identity(text: str) -> str | None:
    """Checks an OAUTH identity, which is optional. No message repeats it.

    Raises:
        InvalidArgument: it is not a JSON object.
    """
    if not text:
        return None
    try:
        said = json.loads(text)
    except ValueError:
        said = None
    if not isinstance(said, dict):
        raise InvalidArgument("""OAUTH takes a JSON object, as in '{"provider": "google", "subject": "1234"}'""")
    return text


def alter_user(context: Context, statement: AlterUser) -> StatementDone:
    value = statement.value
    password = value if statement.field == "password" else None
    change_user(context.warehouse, context.door, statement.name, _user_change(statement.field, value), password)
    return StatementDone(f"user {statement.name} altered")


def _user_change(field: str, value: str | None) -> UserChange:
    match field:
        case "role":
            return UserChange(role=parse_role(value or ""))
        case "email":
            return UserChange(email=value)
        case "storage_mode":
            return UserChange(storage_mode=_storage_mode(value or ""))
        case "storage_id":
            return UserChange(clear_storage=True) if value is None else UserChange(storage_id=value)
        case _:
            return UserChange()


def _storage_mode(text: str) -> StorageMode:
    match text.lower():
        case "table":
            return "table"
        case "region":
            return "region"
        case _:
            raise InvalidArgument(f"STORAGE_MODE {text!r} must be table or region")


def drop_user(context: Context, statement: DropUser) -> StatementDone:
    user = context.catalog.users.get(statement.name)
    if statement.if_exists and (user is None or user.deleted_at is not None):
        return StatementDone(f"skipped: there is no user {statement.name}")
    remove_user(context.warehouse, context.door, statement.name)
    return StatementDone(f"user {statement.name} dropped")
