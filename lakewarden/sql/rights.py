"""The rights that each statement needs, and the types of table that it applies to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lakewarden.access.gate import Guarded, TableOf, require
from lakewarden.access.rights import AccessLevel, Act, Capability, TableAct, WarehouseAct
from lakewarden.catalog.options import check_type
from lakewarden.scope import TableName
from lakewarden.sql.context import Context
from lakewarden.sql.relations import SYSTEM
from lakewarden.sql.statements.base import Ref, Statement
from lakewarden.sql.statements.namespaces import AlterNamespace, CreateNamespace, DropNamespace, UseNamespace
from lakewarden.sql.statements.rows import Delete, Insert, Update
from lakewarden.sql.statements.show import Describe, DescribeHistory, Show, ShowStats, ShowTables
from lakewarden.sql.statements.storages import AlterStorage, CheckStorage, CreateStorage, DropStorage
from lakewarden.sql.statements.tables import AlterTable, CreateTable, CreateView, DropTable, DropView
from lakewarden.sql.statements.upkeep import (
    ExportUserData,
    KillJob,
    KillLiveQuery,
    MoveTable,
    Optimize,
    Restore,
    StorageJob,
    Vacuum,
)
from lakewarden.sql.statements.users import AlterUser, CreateUser, DropUser

_WAREHOUSE: dict[type, WarehouseAct] = {
    CreateNamespace: "manage namespaces",
    DropNamespace: "manage namespaces",
    AlterNamespace: "manage namespaces",
    UseNamespace: "look at what exists",
    Show: "look at what exists",
    ShowTables: "look at what exists",
    Describe: "look at what exists",
    CreateView: "create views",
    DropView: "create views",
    CreateStorage: "manage storages",
    AlterStorage: "manage storages",
    DropStorage: "manage storages",
    CheckStorage: "check storages",
    CreateUser: "manage users",
    AlterUser: "manage users",
    DropUser: "manage users",
    KillJob: "kill jobs",
    KillLiveQuery: "kill jobs",
    ExportUserData: "export their own data",
}

_ON_TABLE: dict[type, TableAct] = {
    AlterTable: "alter",
    DropTable: "drop",
    Insert: "write",
    Update: "write",
    Delete: "write",
    MoveTable: "move",
}
"""What is done to the table that a statement names."""

_ACTS: dict[type, str] = {
    Insert: "ON CONFLICT",
    StorageJob: "flushes and compactions",
    MoveTable: "moves between storages",
    DescribeHistory: "DESCRIBE HISTORY",
}
"""The name, in errors, of a statement that a table's type does not support; by default that of its class."""

Made = dict[TableName, TableOf]
"""Tables that a text creates before the current statement."""


@dataclass(frozen=True)
class Ask:
    """An act, and its table if it has one."""

    act: Act
    table: Guarded | None = None


def check_capability(context: Context, statement: Statement, made: Made) -> None:
    """Raises:
    Unsupported: the statement's table is of a type that does not support it.
    """
    match statement:
        case Update():
            capability: Capability = "updates"
        case Insert() if statement.conflict is not None:
            capability = "updates"
        case StorageJob() | MoveTable() | Optimize() | Vacuum() | Restore() | DescribeHistory():
            capability = "cold tier"
        case _:
            return
    if statement.table is None:
        return
    name = context.named(statement.table)
    table = context.guarded(name) or made.get(name)
    if table is not None:
        require(table, capability, _ACTS.get(type(statement), type(statement).__name__.upper()))


def asks_of(context: Context, statement: Statement, made: Made) -> Iterator[Ask]:
    """The rights that a statement needs, except for the tables that its queries read."""
    act = _WAREHOUSE.get(type(statement))
    if act is not None:
        yield Ask(act)
    match statement:
        case CreateTable():
            yield from _create(context, statement, made)
        case StorageJob():
            yield from _job(context, statement, made)
        case Optimize() | Vacuum() | Restore():
            yield from _on(context, statement.table, "maintain every scope of" if statement.all_users else "write", made)
        case Describe() if context.named(statement.table).namespace != SYSTEM:
            pass  # reads columns, not rows
        case AlterTable() | DropTable() | MoveTable() | Insert() | Update() | Delete():
            yield from _on(context, statement.table, _ON_TABLE[type(statement)], made)
        case Describe() | DescribeHistory() | ShowStats():
            yield from _on(context, statement.table, "read", made)
        case _:
            pass  # names no table outside its queries


def _create(context: Context, statement: CreateTable, made: Made) -> Iterator[Ask]:
    kind = check_type(statement.type)
    level = next((value.upper() for key, value in statement.options if key.upper() == "ACCESS_LEVEL"), "PRIVATE")
    name = context.named(statement.table)
    table = TableOf(name, kind, _level(level))
    yield Ask("create", TableOf(name, "SYSTEM") if name.namespace == SYSTEM else table)
    made[name] = table


def _level(text: str) -> AccessLevel:
    """The access level that the options name. CREATE TABLE refuses an invalid one later."""
    levels: Mapping[str, AccessLevel] = {"PUBLIC": "PUBLIC", "RESTRICTED": "RESTRICTED", "DBA": "DBA"}
    return levels.get(text, "PRIVATE")


def _on(context: Context, ref: Ref, act: TableAct, made: Made) -> Iterator[Ask]:
    """A table that does not exist needs no right, and is not an error yet: an earlier statement may create it."""
    name = context.named(ref)
    table = context.guarded(name) or made.get(name)
    yield Ask(act, table or TableOf(name, "USER"))


def _job(context: Context, statement: StorageJob, made: Made) -> Iterator[Ask]:
    if statement.table is not None:
        yield from _on(context, statement.table, statement.operation, made)
    else:
        yield Ask(statement.operation, TableOf(TableName(statement.namespace or context.namespace or "", ""), "USER"))
