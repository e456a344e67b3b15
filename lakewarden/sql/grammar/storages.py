"""Parses statements about storages, and the STORAGE statements (kalamdb.md 1.5)."""

from __future__ import annotations

from typing import Literal

from lakewarden.errors import InvalidArgument
from lakewarden.sql.grammar.namespaces import in_namespace
from lakewarden.sql.grammar.tables import if_exists
from lakewarden.sql.reader import StatementReader
from lakewarden.sql.statements.base import Ref, Statement
from lakewarden.sql.statements.storages import AlterStorage, CheckStorage, CreateStorage, DropStorage
from lakewarden.sql.statements.upkeep import MoveTable, StorageJob

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
    return StorageJob(operation, table, namespace, look, read.word("DRY", "RUN"), ratio)


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
