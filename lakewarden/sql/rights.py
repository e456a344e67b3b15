"""What the gate is asked before a statement runs, and for a whole text before any of it does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sqlglot import exp

from lakewarden.access.gate import Guarded, TableOf, impersonate, require
from lakewarden.access.rights import AccessLevel, Act, Capability, TableAct, WarehouseAct
from lakewarden.catalog.options import check_type
from lakewarden.catalog.users import role_of
from lakewarden.errors import NotFound, PermissionDenied, Unsupported
from lakewarden.operations.door import Door
from lakewarden.scope import TableName
from lakewarden.sql import statements as of
from lakewarden.sql.context import Context
from lakewarden.sql.relations import DEEPEST, SYSTEM, ViewQuery, refs
from lakewarden.sql.select import text_of

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
"""How a statement is called that a table's type does not take; else as its class."""

Made = dict[TableName, TableOf]
"""Tables that a text makes before the statement at hand."""


@dataclass(frozen=True)
class _Ask:
    act: Act
    table: Guarded | None = None


def check_batch(context: Context, statements: list[of.Statement]) -> None:
    """Asks for every statement, with USE and the tables that the text makes taken into account.

    Raises:
        PermissionDenied, Unsupported, InvalidArgument, BadSyntax: the first that may not be; nothing has run.
    """
    made: Made = {}
    context = context.at_once()
    for statement in statements:
        check(context, statement, made)
        if isinstance(statement, of.UseNamespace):
            context.namespace = statement.name


def check(context: Context, statement: of.Statement, made: Made) -> None:
    """Raises: as `check_batch`."""
    if isinstance(statement, of.Forbidden):
        with context.door.watched(statement.what):
            raise PermissionDenied(
                f"{statement.what} is not for SQL here: a statement reaches the session's tables and nothing else"
            )
    if isinstance(statement, of.Declined):
        if "DATABASE" in statement.what:
            context.door.allow("back up the database")
        raise Unsupported(f"{statement.what}: known, and not there")
    if isinstance(statement, of.ExecuteAs):
        check(context.through(_glance(context, statement.user)), statement.statement, made)
        return
    for ask in _asks(context, statement, made):
        context.door.allow(ask.act, ask.table)
    _check_capability(context, statement, made)
    with context.door.watched("query"):
        for query in _queries(statement):
            context.services.engine.check(text_of(query))


def _check_capability(context: Context, statement: of.Statement, made: Made) -> None:
    """Raises:
    Unsupported: the type of the statement's table has not got what it asks for.
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


def _glance(context: Context, user: str) -> Door:
    """The other user's door, which is noted only where it stays shut: nobody has gone through it yet.

    Raises:
        PermissionDenied: the session's role may not take that user's place.
    """
    try:
        return Door(impersonate(context.session, user, role_of(context.catalog(), user)), context.door.audit)
    except PermissionDenied:
        return context.door.execute_as(context.catalog(), user)


def _asks(context: Context, statement: of.Statement, made: Made) -> Iterator[_Ask]:
    act = _WAREHOUSE.get(type(statement))
    if act is not None:
        yield _Ask(act)
    match statement:
        case of.CreateTable():
            yield from _create(context, statement, made)
        case of.StorageJob():
            yield from _job(context, statement, made)
        case of.Optimize() | of.Vacuum() | of.Restore():
            yield from _on(context, statement.table, "maintain every scope of" if statement.all_users else "write", made)
        case of.Describe() if context.named(statement.table).namespace != SYSTEM:
            pass  # columns are no rows
        case of.AlterTable() | of.DropTable() | of.MoveTable() | of.Insert() | of.Update() | of.Delete():
            yield from _on(context, statement.table, _ON_TABLE[type(statement)], made)
        case of.Describe() | of.DescribeHistory() | of.ShowStats():
            yield from _on(context, statement.table, "read", made)
        case _:
            pass  # asks nothing of a table by name; its queries follow
    namespace = context.named(statement.view).namespace if isinstance(statement, of.CreateView) else context.namespace
    for query in _queries(statement):
        yield from _reads(context, query, namespace, made)


def _create(context: Context, statement: of.CreateTable, made: Made) -> Iterator[_Ask]:
    kind = check_type(statement.type)
    level = next((value.upper() for key, value in statement.options if key.upper() == "ACCESS_LEVEL"), "PRIVATE")
    name = context.named(statement.table)
    table = TableOf(name, kind, _level(level))
    yield _Ask("create", TableOf(name, "SYSTEM") if name.namespace == SYSTEM else table)
    made[name] = table


def _level(text: str) -> AccessLevel:
    """Whatever is no level is refused when the table is made."""
    levels: Mapping[str, AccessLevel] = {"PUBLIC": "PUBLIC", "RESTRICTED": "RESTRICTED", "DBA": "DBA"}
    return levels.get(text, "PRIVATE")


def _on(context: Context, ref: of.Ref, act: TableAct, made: Made) -> Iterator[_Ask]:
    """One that is not there is nobody's to guard, and no error yet: an earlier statement may bring it about."""
    name = context.named(ref)
    table = context.guarded(name) or made.get(name)
    yield _Ask(act, table or TableOf(name, "USER"))


def _job(context: Context, statement: of.StorageJob, made: Made) -> Iterator[_Ask]:
    if statement.table is not None:
        yield from _on(context, statement.table, statement.operation, made)
    else:
        yield _Ask(statement.operation, TableOf(TableName(statement.namespace or context.namespace or "", ""), "USER"))


def _queries(statement: of.Statement) -> Iterator[exp.Expr]:
    """Every part of a statement that DuckDB will compute."""
    match statement:
        case of.Query() | of.Explain() | of.Subscribe() | of.CreateView():
            yield statement.query
        case of.Insert():
            if statement.rows is not None:
                yield statement.rows
            conflict = statement.conflict
            if conflict is not None:
                yield from _computed(conflict.assignments or (), conflict.where)
        case of.Update():
            yield from _computed(statement.assignments, statement.where)
        case of.Delete():
            yield from _computed((), statement.where)
        case _:
            pass  # computes nothing


def _computed(assignments: tuple[of.Assignment, ...], where: exp.Expr | None) -> Iterator[exp.Expr]:
    values = [each.value.copy() for each in assignments] + ([] if where is None else [where.copy()])
    if values:
        yield exp.select(*values, copy=False)


def _reads(context: Context, query: exp.Expr, namespace: str | None, made: Made, depth: int = 0) -> Iterator[_Ask]:
    """The tables that a query reads; those of a view count as the query's own."""
    if depth > DEEPEST:
        raise Unsupported(f"views lie in views more than {DEEPEST} deep")
    for ref in refs(query):
        name = context.named(ref, namespace)
        if name in made:
            yield _Ask("read", made[name])
            continue
        try:
            found = context.relation(ref, namespace)
        except NotFound:
            continue  # an earlier statement may bring it about
        if isinstance(found, ViewQuery):
            yield from _reads(context, found.query, found.namespace, made, depth + 1)
        else:
            yield _Ask("read", context.guarded(found))
