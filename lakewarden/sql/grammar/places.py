"""Parses statements about namespaces and storages, and SHOW (kalamdb.md 1.3 and 1.5)."""

from __future__ import annotations

from typing import Literal

from sqlglot.tokenizer_core import TokenType

from lakewarden.errors import InvalidArgument
from lakewarden.sql.grammar.tables import if_exists, if_not_exists
from lakewarden.sql.reader import Reader
from lakewarden.sql.statements import (
    AlterNamespace,
    AlterStorage,
    CheckStorage,
    CreateNamespace,
    CreateStorage,
    Describe,
    DescribeHistory,
    DropNamespace,
    DropStorage,
    MoveTable,
    Ref,
    Show,
    ShowStats,
    ShowTables,
    Statement,
    StorageJob,
    UseNamespace,
)

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


def create_namespace(read: Reader) -> Statement:
    missing = if_not_exists(read)
    return CreateNamespace(read.name("a namespace"), missing)


def drop_namespace(read: Reader) -> Statement:
    there = if_exists(read)
    name = read.name("a namespace")
    return DropNamespace(name, there, read.word("CASCADE"))


def alter_namespace(read: Reader) -> Statement:
    name = read.name("a namespace")
    read.expect("SET", "DESCRIPTION")
    return AlterNamespace(name, read.text("a description"))


def use(read: Reader) -> Statement:
    """Reads what follows USE."""
    read.word("NAMESPACE")
    return UseNamespace(read.name("a namespace"))


def create_storage(read: Reader) -> Statement:
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


def alter_storage(read: Reader) -> Statement:
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


def drop_storage(read: Reader) -> Statement:
    there = if_exists(read)
    return DropStorage(read.name_or_text("a storage"), there)


def storage(read: Reader) -> Statement:
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


def _job(read: Reader, operation: Literal["flush", "compact"]) -> Statement:
    if read.one_of("TABLE", "ALL") == "TABLE":
        return StorageJob(operation, _qualified(read, operation), dry_run=read.word("DRY", "RUN"))
    return StorageJob(operation, namespace=_in_namespace(read), dry_run=read.word("DRY", "RUN"))


def _move(read: Reader) -> Statement:
    read.expect("TABLE")
    table = _qualified(read, "move")
    to = read.one_of("TO", "CANCEL") == "TO"
    return MoveTable(table, read.name_or_text("a storage") if to else None)


def _qualified(read: Reader, operation: str) -> Ref:
    table = read.ref()
    if table.namespace is None:
        raise InvalidArgument(f"STORAGE {operation.upper()} TABLE {table}: write it with its namespace, as in chat.{table}")
    return table


def _in_namespace(read: Reader) -> str | None:
    if not (read.word("IN") or read.word("FROM")):
        return None
    read.word("NAMESPACE")
    return read.name("a namespace")


def show(read: Reader) -> Statement:
    match read.one_of("NAMESPACES", "STORAGES", "MANIFEST", "EXPORT", "TABLES", "STATS FOR TABLE"):
        case "TABLES":
            return ShowTables(_in_namespace(read))
        case "STATS FOR TABLE":
            return ShowStats(read.ref())
        case "NAMESPACES":
            return Show("namespaces")
        case "STORAGES":
            return Show("storages")
        case "MANIFEST":
            return Show("manifest")
        case _:
            return Show("export")


def describe(read: Reader) -> Statement:
    if read.word("HISTORY") and not read.over and not read._match(TokenType.DOT, advance=False):
        table = read.ref()
        return DescribeHistory(table, read.whole("a limit") if read.word("LIMIT") else None)
    if read._prev.text.upper() == "HISTORY":  # a table of that name
        read._retreat(read._index - 1)
    read.word("TABLE")
    table = read.ref()
    return Describe(table, read.word("HISTORY"))
