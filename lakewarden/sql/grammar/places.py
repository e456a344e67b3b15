"""Parses statements about namespaces, storages and users (kalamdb.md 1.3, 1.5, 1.8 and 1.9), and the STORAGE statements."""

from __future__ import annotations

from typing import Literal

from lakewarden.errors import InvalidArgument
from lakewarden.sql.grammar.tables import if_exists, if_not_exists
from lakewarden.sql.grammar.upkeep import more_options
from lakewarden.sql.reader import StatementReader
from lakewarden.sql.statements.base import Ref, Statement
from lakewarden.sql.statements.definitions import (
    AlterNamespace,
    AlterStorage,
    AlterUser,
    CheckStorage,
    CreateNamespace,
    CreateStorage,
    CreateUser,
    DisableEngine,
    DropNamespace,
    DropStorage,
    DropUser,
    EnableEngine,
    UseNamespace,
)
from lakewarden.sql.statements.upkeep import MoveTable, StorageJob


def create_namespace(read: StatementReader) -> Statement:
    missing = if_not_exists(read)
    return CreateNamespace(read.namespace(), missing)


def drop_namespace(read: StatementReader) -> Statement:
    there = if_exists(read)
    name = read.namespace()
    return DropNamespace(name, there, read.word("CASCADE"))


def alter_namespace(read: StatementReader) -> Statement:
    name = read.namespace()
    read.expect("SET", "DESCRIPTION")
    return AlterNamespace(name, read.text("a description"))


def use(read: StatementReader) -> Statement:
    """Reads what follows USE."""
    read.word("NAMESPACE")
    return UseNamespace(read.namespace())


def enable_engine(read: StatementReader) -> Statement:
    name = read.namespace()
    return EnableEngine(name, read.text("the settings") if read.word("SETTINGS") else None)


def disable_engine(read: StatementReader) -> Statement:
    return DisableEngine(read.namespace())


def in_namespace(read: StatementReader) -> str | None:
    if not (read.word("IN") or read.word("FROM")):
        return None
    read.word("NAMESPACE")
    return read.namespace()


# Parses statements about storages, and the STORAGE statements (kalamdb.md 1.5).
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


def create_storage(read: StatementReader) -> Statement:
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
    return CreateStorage(storage_id, kind, **fields)


def alter_storage(read: StatementReader) -> Statement:
    storage_id = read.name_or_text("a storage")
    fields: dict[str, str] = {}
    read.expect("SET")
    while True:
        name = _ALTER_FIELDS[read.one_of(*_ALTER_FIELDS)]
        if name in fields:
            raise InvalidArgument(f"ALTER STORAGE {storage_id} sets its {name} twice")
        fields[name] = read.text(f"the {name}")
        if not read.word("SET"):
            return AlterStorage(storage_id, **fields)


def drop_storage(read: StatementReader) -> Statement:
    there = if_exists(read)
    return DropStorage(read.name_or_text("a storage"), there)


def storage(read: StatementReader) -> Statement:
    """Reads what follows STORAGE."""
    match read.one_of("CHECK", "FLUSH", "COMPACT", "MOVE"):
        case "CHECK":
            storage_id = read.name_or_text("a storage")
            return CheckStorage(storage_id, read.word("EXTENDED"))
        case "FLUSH":
            return _job(read, "flush")
        case "COMPACT":
            return _job(read, "compact")
        case _:
            return _move(read)


def _job(read: StatementReader, operation: Literal["flush", "compact"]) -> Statement:
    one = read.one_of("TABLE", "ALL") == "TABLE"
    table, namespace = (_qualified(read, operation), None) if one else (None, in_namespace(read))
    ratio = read.number("a ratio") if operation == "compact" and read.word("RATIO") else None
    look = operation == "compact" and read.word("LOOK")
    more = more_options(read)
    return StorageJob(operation, table, namespace, look, read.word("DRY", "RUN"), ratio, more)


def _move(read: StatementReader) -> Statement:
    read.expect("TABLE")
    table = _qualified(read, "move")
    to = read.one_of("TO", "CANCEL") == "TO"
    return MoveTable(table, read.name_or_text("a storage") if to else None, to and read.word("DRY", "RUN"))


def _qualified(read: StatementReader, operation: str) -> Ref:
    table = read.ref()
    if table.namespace is None:
        raise InvalidArgument(f"STORAGE {operation.upper()} TABLE {table}: write it with its namespace, as in chat.{table}")
    return table


# Parses statements about users, and EXECUTE AS (kalamdb.md 1.8 and 1.9).
_Field = Literal["password", "role", "email", "storage_mode", "storage_id"]

_FIELDS: dict[str, _Field] = {
    "PASSWORD": "password",
    "ROLE": "role",
    "EMAIL": "email",
    "STORAGE_MODE": "storage_mode",
    "STORAGE_ID": "storage_id",
}


def create_user(read: StatementReader) -> Statement:
    name = read.name_or_text("a user")
    read.expect("WITH")
    auth: Literal["password", "oauth", "internal"]
    match read.one_of("PASSWORD", "OAUTH", "INTERNAL"):
        case "PASSWORD":
            auth, secret = "password", read.text("the password")
        case "OAUTH":
            auth, secret = "oauth", _identity(read)
        case _:
            auth, secret = "internal", ""
    read.expect("ROLE")
    role = read.name_or_text("a role")
    fields: dict[str, str] = {}
    while not read.over:
        key = read.one_of("EMAIL", "STORAGE_MODE", "STORAGE_ID")
        if key.lower() in fields:
            raise InvalidArgument(f"CREATE USER {name}: {key} is given twice")
        fields[key.lower()] = _value(read, key)
    return CreateUser(name, auth, secret, role, **fields)


def _value(read: StatementReader, key: str) -> str:
    return read.text("the address") if key == "EMAIL" else read.name_or_text(f"the {key}")


def alter_user(read: StatementReader) -> Statement:
    name = read.name_or_text("a user")
    read.expect("SET")
    key = read.one_of(*_FIELDS)
    if key == "STORAGE_ID" and read.word("NULL"):
        return AlterUser(name, "storage_id", None)
    value = read.text("the password") if key == "PASSWORD" else _value(read, key)
    return AlterUser(name, _FIELDS[key], value)


def drop_user(read: StatementReader) -> Statement:
    there = if_exists(read)
    return DropUser(read.name_or_text("a user"), there)


def _identity(read: StatementReader) -> str:
    """Reads the identity; it is optional."""
    return read.text("the identity as JSON") if read.at_text else ""
