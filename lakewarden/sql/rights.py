"""The rights that each statement needs, and the types of table that it applies to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lakewarden.access.gate import Guarded, TableOf, require
from lakewarden.access.rights import AccessLevel, Act, Capability, TableAct, WarehouseAct
from lakewarden.catalog.options import check_type
from lakewarden.scope import TableName
from lakewarden.sql import statements as of
from lakewarden.sql.context import Context
from lakewarden.sql.relations import SYSTEM

_WAREHOUSE: dict[type, WarehouseAct] = {
    of.CreateNamespace: "manage namespaces",
    of.DropNamespace: "manage namespaces",
    of.AlterNamespace: "manage namespaces",
    of.UseNamespace: "look at what exists",
    of.Show: "look at what exists",
    of.ShowTables: "look at what exists",
    of.Describe: "look at what exists",
    of.CreateView: "create views",
    of.DropView: "create views",
    of.CreateStorage: "manage storages",
    of.AlterStorage: "manage storages",
    of.DropStorage: "manage storages",
    of.CheckStorage: "check storages",
    of.CreateUser: "manage users",
    of.AlterUser: "manage users",
    of.DropUser: "manage users",
    of.KillJob: "kill jobs",
    of.KillLiveQuery: "kill jobs",
    of.ExportUserData: "export their own data",
}

_ON_TABLE: dict[type, TableAct] = {
    of.AlterTable: "alter",
    of.DropTable: "drop",
    of.Insert: "write",
    of.Update: "write",
    of.Delete: "write",
    of.MoveTable: "move",
}
"""What is done to the table that a statement names."""

_ACTS: dict[type, str] = {
    of.Insert: "ON CONFLICT",
    of.StorageJob: "flushes and compactions",
    of.MoveTable: "moves between storages",
    of.DescribeHistory: "DESCRIBE HISTORY",
}
"""The name, in errors, of a statement that a table's type does not support; by default that of its class."""

Made = dict[TableName, TableOf]
"""Tables that a text creates before the current statement."""


@dataclass(frozen=True)
class Ask:
    """An act, and its table if it has one."""

    act: Act
    table: Guarded | None = None


def check_capability(context: Context, statement: of.Statement, made: Made) -> None:
    """Raises:
    Unsupported: the statement's table is of a type that does not support it.
    """
    match statement:
        case of.Update():
            capability: Capability = "updates"
        case of.Insert() if statement.conflict is not None:
            capability = "updates"
        case of.StorageJob() | of.MoveTable() | of.Optimize() | of.Vacuum() | of.Restore() | of.DescribeHistory():
            capability = "cold tier"
        case _:
            return
    if statement.table is None:
        return
    name = context.named(statement.table)
    table = context.guarded(name) or made.get(name)
    if table is not None:
        require(table, capability, _ACTS.get(type(statement), type(statement).__name__.upper()))


def asks_of(context: Context, statement: of.Statement, made: Made) -> Iterator[Ask]:
    """The rights that a statement needs, except for the tables that its queries read."""
    act = _WAREHOUSE.get(type(statement))
    if act is not None:
        yield Ask(act)
    match statement:
        case of.CreateTable():
            yield from _create(context, statement, made)
        case of.StorageJob():
            yield from _job(context, statement, made)
        case of.Optimize() | of.Vacuum() | of.Restore():
            yield from _on(context, statement.table, "maintain every scope of" if statement.all_users else "write", made)
        case of.Describe() if context.named(statement.table).namespace != SYSTEM:
            pass  # reads columns, not rows
        case of.AlterTable() | of.DropTable() | of.MoveTable() | of.Insert() | of.Update() | of.Delete():
            yield from _on(context, statement.table, _ON_TABLE[type(statement)], made)
        case of.Describe() | of.DescribeHistory() | of.ShowStats():
            yield from _on(context, statement.table, "read", made)
        case _:
            pass  # names no table outside its queries


def _create(context: Context, statement: of.CreateTable, made: Made) -> Iterator[Ask]:
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


def _on(context: Context, ref: of.Ref, act: TableAct, made: Made) -> Iterator[Ask]:
    """A table that does not exist needs no right, and is not an error yet: an earlier statement may create it."""
    name = context.named(ref)
    table = context.guarded(name) or made.get(name)
    yield Ask(act, table or TableOf(name, "USER"))


def _job(context: Context, statement: of.StorageJob, made: Made) -> Iterator[Ask]:
    if statement.table is not None:
        yield from _on(context, statement.table, statement.operation, made)
    else:
        yield Ask(statement.operation, TableOf(TableName(statement.namespace or context.namespace or "", ""), "USER"))
