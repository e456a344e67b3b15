"""Temporary tables, which belong to one session and live in its memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from lakewarden.base.scope import TableName
from lakewarden.catalog.dynamic_declaration import FILE_PATH, KAFKA
from lakewarden.catalog.model import Table
from lakewarden.catalog.names import check_table
from lakewarden.catalog.options import check_type
from lakewarden.delta.reading.rows import empty_rows
from lakewarden.errors import AlreadyExists, InvalidArgument, NotFound, Unsupported
from lakewarden.maintenance.admin.create_table import new_table
from lakewarden.maintenance.admin.dynamic_tables import new_dynamic_table
from lakewarden.sql.context import Context
from lakewarden.sql.reader import StatementReader
from lakewarden.sql.results import StatementDone
from lakewarden.sql.rights import READS
from lakewarden.sql.statement import Grammar, Names, OnTable, SessionStatement, Statement, StatementSpec, registered
from lakewarden.sql.statements.clauses import if_exists
from lakewarden.sql.statements.create_table import DYNAMIC, CreateTable, declaration, is_dynamic, read_create_table
from lakewarden.sql.temporary import TemporaryTable


@dataclass(frozen=True)
class CreateTemporaryTable(SessionStatement, OnTable):
    """CREATE TEMPORARY TABLE: as `declared`, for the session alone."""

    declared: CreateTable

    def takes_temporary(self, name: TableName) -> bool:
        return True

    def shadowing(self, context: Context) -> Names:
        return context.shadowing | {context.named(self.table)}


@dataclass(frozen=True)
class DropTemporaryTable(SessionStatement, OnTable):
    if_exists: bool = False

    def takes_temporary(self, name: TableName) -> bool:
        return True

    def shadowing(self, context: Context) -> Names:
        return context.shadowing - {context.named(self.table)}


def read_create_temporary_table(read: StatementReader, prefix: str | None) -> Statement:
    """Reads what follows CREATE TEMPORARY [DYNAMIC] TABLE."""
    found = read_create_table(read, prefix)
    if not isinstance(found, CreateTable):
        raise Unsupported("CREATE TEMPORARY TABLE … AS or FROM TEMPLATE: create it with its columns, then INSERT INTO it")
    return CreateTemporaryTable(found.table, found)


def create_temporary_table(context: Context, statement: CreateTemporaryTable) -> StatementDone:
    """Raises:
    AlreadyExists: the session has a temporary table of this name.
    NotFound: there is no such namespace.
    InvalidArgument, Unsupported: the declaration is not valid, or is not for a table in memory.
    """
    name = context.named(statement.table)
    if context.temporary.find(name) is not None:
        if statement.declared.if_not_exists:
            return StatementDone(f"temporary table {name} already exists")
        raise AlreadyExists(f"temporary table {name} already exists")
    if name.namespace not in context.catalog.namespaces:
        raise NotFound(f"there is no namespace {name.namespace!r}: a temporary table has its name in one of the warehouse")
    check_table(name.name)
    table = _declared(context, statement.declared, name)
    context.temporary.add(TemporaryTable(table, empty_rows(table.schema)))
    return StatementDone(f"temporary table {name} created")


def drop_temporary_table(context: Context, statement: DropTemporaryTable) -> StatementDone:
    """Raises:
    InvalidArgument: the name means a table of the warehouse.
    NotFound: nothing has this name.
    """
    name = context.named(statement.table)
    if context.temporary.drop(name):
        return StatementDone(f"temporary table {name} dropped")
    if statement.if_exists:
        return StatementDone(f"skipped: there is no temporary table {name}")
    if name in context.catalog.tables:
        raise InvalidArgument(f"{name} is a table of the warehouse, not a temporary one; DROP TABLE {name} would remove it")
    raise NotFound(f"there is no temporary table {name}")


def _declared(context: Context, statement: CreateTable, name: TableName) -> Table:
    """The table as CREATE TABLE would make it, without a place."""
    given = declaration(
        statement, name, {option: value for option, value in context.table_storage.items() if option != FILE_PATH}
    )
    if any(option.strip().lower() == FILE_PATH or option.strip().lower().startswith(KAFKA) for option in given.options):
        raise InvalidArgument(f"{name} is temporary: it is in memory, and takes no option {FILE_PATH} and none of {KAFKA}…")
    if is_dynamic(context, statement):
        return new_dynamic_table(context.warehouse, context.catalog, given)
    if check_type(statement.type) != "SHARED":
        raise Unsupported(f"{name}: a temporary table belongs to its session, and is not of the type {statement.type}")
    return new_table(context.warehouse, name, "SHARED", given.columns, given.primary_key, given.options, given.partition_by)


ROWS = registered(
    StatementSpec(
        "CREATE TEMPORARY [DYNAMIC] TABLE [IF NOT EXISTS] t (c type […], …, [PRIMARY KEY (…)]) [WITH (KEY = value, …)]",
        "creates a table of the session alone, which takes INSERT and SELECT and is gone with the session",
        READS,
        create_temporary_table,
        begins="CREATE TEMPORARY TABLE",
    ),
    StatementSpec(
        "DROP TEMPORARY TABLE [IF EXISTS] t",
        "removes a table of the session",
        READS,
        drop_temporary_table,
        begins="DROP TEMPORARY TABLE",
    ),
)

_WORDS = ("TEMPORARY", "TEMP")

GRAMMARS: Mapping[str, Grammar] = {
    **{
        f"CREATE {word} {kind}TABLE": partial(read_create_temporary_table, prefix=prefix)
        for word in _WORDS
        for kind, prefix in (("", None), ("DYNAMIC ", DYNAMIC))
    },
    **dict.fromkeys(
        (f"DROP {word} TABLE" for word in _WORDS),
        lambda read: DropTemporaryTable(if_exists=if_exists(read), table=read.ref()),
    ),
}
