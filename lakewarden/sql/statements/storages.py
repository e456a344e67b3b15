"""What a warehouse stands on: its storages (kalamdb.md 1.5) and its settings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from lakewarden.base.connection import Connection
from lakewarden.errors import AlreadyExists, InvalidArgument, NotFound
from lakewarden.maintenance.admin.health import health
from lakewarden.maintenance.admin.settings import alter_warehouse as alter
from lakewarden.maintenance.admin.settings import settings_of
from lakewarden.maintenance.admin.storages import (
    StorageChange,
    StorageDeclaration,
    change_storage,
    make_storage,
    new_storage,
    remove_storage,
)
from lakewarden.sql.context import Context
from lakewarden.sql.reader import StatementReader
from lakewarden.sql.ref import Pairs
from lakewarden.sql.results import ResultRows, Row, StatementDone, listing
from lakewarden.sql.rights import in_warehouse
from lakewarden.sql.statement import AuditEntrySpec, Grammar, ListStatement, Statement, StatementSpec, registered
from lakewarden.sql.statements.clauses import if_exists, options_of
from lakewarden.sql.system_listings import FLAG, MOMENT, TEXT, WHOLE, texts


@dataclass(frozen=True)
class CreateStorage(Statement):
    id: str
    declared: StorageDeclaration = field(repr=False)
    """Never shown: it may hold a misplaced secret."""


@dataclass(frozen=True)
class AlterStorage(Statement):
    id: str
    change: StorageChange = field(repr=False)
    """Never shown, either."""


@dataclass(frozen=True)
class DropStorage(Statement):
    id: str
    if_exists: bool = False


@dataclass(frozen=True)
class CheckStorage(Statement):
    id: str
    extended: bool = False


_CREATE_FIELDS = {
    "NAME": "name",
    "DESCRIPTION": "description",
    "PATH": "base",
    "BASE_DIRECTORY": "base",
    "BUCKET": "bucket",
    "REGION": "region",
    "SHARED_TABLES_TEMPLATE": "shared_template",
    "USER_TABLES_TEMPLATE": "user_template",
    "CREDENTIALS": "credentials",
    "CONFIG": "config",
}
_ALTER_FIELDS = {key: name for key, name in _CREATE_FIELDS.items() if name not in ("base", "bucket")}


def read_create_storage(read: StatementReader) -> Statement:
    storage_id = read.name_or_text("a storage")
    read.expect("TYPE")
    kind = read.name_or_text("a storage type").lower()
    fields: dict[str, str] = {}
    while not read.over:
        key = read.one_of(*_CREATE_FIELDS)
        name = _CREATE_FIELDS[key]
        if name in fields:
            raise InvalidArgument(f"CREATE STORAGE {storage_id}: {key} is given twice, or beside another that means the same")
        fields[name] = read.text(f"the {key}")
    config = _config(fields.pop("config", ""))
    connection = Connection(config.endpoint or "", fields.pop("region", ""), config.path_style, fields.pop("credentials", ""))
    base = fields.pop("base", "")
    return CreateStorage(storage_id, StorageDeclaration(storage_id, kind, base, connection=connection, **fields))


def read_alter_storage(read: StatementReader) -> Statement:
    storage_id = read.name_or_text("a storage")
    fields: dict[str, str] = {}
    read.expect("SET")
    while True:
        name = _ALTER_FIELDS[read.one_of(*_ALTER_FIELDS)]
        if name in fields:
            raise InvalidArgument(f"ALTER STORAGE {storage_id} sets its {name} twice")
        fields[name] = read.text(f"the {name}")
        if not read.word("SET"):
            config = _config(fields.pop("config", ""))
            return AlterStorage(storage_id, StorageChange(endpoint=config.endpoint, path_style=config.path_style, **fields))


def create_storage(context: Context, statement: CreateStorage) -> StatementDone:
    if statement.id in context.catalog.storages:
        raise AlreadyExists(f"storage {statement.id!r} already exists")
    make_storage(context.warehouse, new_storage(statement.declared, context.warehouse.clock()))
    return StatementDone(f"storage {statement.id} created")


def alter_storage(context: Context, statement: AlterStorage) -> StatementDone:
    change_storage(context.warehouse, statement.id, statement.change)
    return StatementDone(f"storage {statement.id} altered")


def _config(text: str) -> StorageChange:
    """Reads CONFIG. No message repeats a value: it may be a misplaced secret.

    Raises:
        InvalidArgument: it is not a JSON object, or has a key or value that no storage takes.
    """
    if not text:
        return StorageChange()
    try:
        said = json.loads(text)
    except ValueError:
        raise InvalidArgument(f"CONFIG is not valid JSON; {_CONFIG_FORM}") from None
    if not isinstance(said, dict) or not said.keys() <= {"endpoint", "path_style"}:
        raise InvalidArgument(f"CONFIG is a JSON object with the keys endpoint and path_style only; {_CONFIG_FORM}")
    endpoint, path_style = said.get("endpoint"), said.get("path_style")
    if not isinstance(endpoint, str | None) or not isinstance(path_style, bool | None):
        raise InvalidArgument(f"CONFIG: the endpoint is text, and path_style true or false; {_CONFIG_FORM}")
    return StorageChange(endpoint=endpoint, path_style=path_style)


_CONFIG_FORM = """the form is CONFIG '{"endpoint": "https://host:9000", "path_style": true}'"""


def drop_storage(context: Context, statement: DropStorage) -> StatementDone:
    if statement.if_exists and statement.id not in context.catalog.storages:
        return StatementDone(f"skipped: there is no storage {statement.id}")
    remove_storage(context.warehouse, statement.id)
    return StatementDone(f"storage {statement.id} dropped")


def check_storage(context: Context, statement: CheckStorage) -> ResultRows:
    """Tests the storage: writes, reads, lists and deletes an object; one row of eleven columns (kalamdb.md 1.5)."""
    columns = {"storage_id": TEXT, "status": TEXT, **dict.fromkeys(("readable", "writable", "listable", "deletable"), FLAG)}
    columns |= {"latency_ms": WHOLE, "total_bytes": WHOLE, "used_bytes": WHOLE, "error": TEXT, "tested_at": MOMENT}
    storage = context.catalog.storages.get(statement.id)
    if storage is None:
        raise NotFound(f"there is no storage {statement.id!r}; there are {', '.join(context.catalog.storages)}")
    found = health(context.warehouse, storage, extended=statement.extended)
    return listing(columns, [vars(found)])


# Statements about the whole warehouse.
@dataclass(frozen=True)
class AlterWarehouse(Statement):
    """Changes settings."""

    settings: Pairs


@dataclass(frozen=True)
class ShowSettings(ListStatement):
    """Lists them."""


def read_alter_warehouse(read: StatementReader) -> Statement:
    """Reads what follows ALTER WAREHOUSE."""
    read.expect("SET")
    return AlterWarehouse(read.pairs())


def alter_warehouse(context: Context, statement: AlterWarehouse) -> StatementDone:
    changes = options_of(statement.settings)
    alter(context.warehouse, changes, context.principal, context.door.audit)
    return StatementDone(f"warehouse altered: {', '.join(f'{key} = {value}' for key, value in changes.items())}")


def show_settings(context: Context, _: ShowSettings) -> ResultRows:
    rows: list[Row] = [
        {
            "key": one.key,
            "value": json.dumps(one.value),
            "default": json.dumps(one.default),
            "bounds": one.bounds,
            "description": one.description,
        }
        for one in settings_of(context.warehouse)
    ]
    return listing(texts("key", "value", "default", "bounds", "description"), rows)


ROWS = registered(
    StatementSpec(
        "ALTER WAREHOUSE SET (KEY = value, …)",
        "changes settings by which all processes go; the value DEFAULT sets one back",
        in_warehouse("manage settings"),
        alter_warehouse,
    ),
    StatementSpec("SHOW SETTINGS", "lists these settings", in_warehouse("manage settings"), show_settings),
    StatementSpec(
        "CREATE STORAGE s TYPE … [PATH '…'] [BUCKET '…'] [REGION '…'] [CREDENTIALS 'env:PREFIX']"
        ' [CONFIG \'{"endpoint": "…", "path_style": true}\'] […]',
        "tries a place and makes it a storage",
        in_warehouse("manage storages"),
        create_storage,
        audited=AuditEntrySpec("CREATE_STORAGE", "storage"),
    ),
    StatementSpec(
        "ALTER STORAGE s SET … '…'",
        "changes a storage",
        in_warehouse("manage storages"),
        alter_storage,
        audited=AuditEntrySpec("ALTER_STORAGE", "storage"),
    ),
    StatementSpec(
        "DROP STORAGE [IF EXISTS] s",
        "removes a storage that no table uses",
        in_warehouse("manage storages"),
        drop_storage,
        audited=AuditEntrySpec("DROP_STORAGE", "storage"),
    ),
    StatementSpec("STORAGE CHECK s [EXTENDED]", "tries a storage", in_warehouse("check storages"), check_storage),
)

GRAMMARS: Mapping[str, Grammar] = {
    "CREATE STORAGE": read_create_storage,
    "ALTER STORAGE": read_alter_storage,
    "DROP STORAGE": lambda read: DropStorage(if_exists=if_exists(read), id=read.name_or_text("a storage")),
    "ALTER WAREHOUSE": read_alter_warehouse,
}
