"""The rights that statements need, and the types of table that they apply to: what a row says, for a statement at hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from lakewarden.base.scope import TableName
from lakewarden.catalog.access import TableAct, TableOf, require
from lakewarden.catalog.dynamic_declaration import FILE_PATH
from lakewarden.catalog.names import AccessLevel
from lakewarden.catalog.operations import SPECS
from lakewarden.catalog.options import check_type
from lakewarden.errors import Unsupported
from lakewarden.maintenance.plans.store import PlanLog
from lakewarden.maintenance.request import Request
from lakewarden.sql.context import Context
from lakewarden.sql.relations import SYSTEM
from lakewarden.sql.specs.spec import Ask, InWarehouse, OwnRule, Requirement, Right, ScopesRight, TableRight, act_of
from lakewarden.sql.statements.base import OnScopes as Ranged
from lakewarden.sql.statements.base import OnTable as Tabled
from lakewarden.sql.statements.base import Ref, Statement
from lakewarden.sql.statements.definitions import AlterRule, CreateFromTemplate, CreateTable, CreateTableAs, DropPipeline
from lakewarden.sql.statements.session import Describe
from lakewarden.sql.statements.upkeep import ApplyPlan, StorageJob
from lakewarden.tables.warehouse import live_tables

Made = dict[TableName, TableOf]
"""Tables that a text creates before the current statement."""


def asks_of(context: Context, statement: Statement, right: Right, made: Made) -> Iterator[Ask]:
    """The acts that a statement needs, except for the tables that its queries read."""
    match right:
        case InWarehouse(act):
            yield Ask(act)
        case TableRight(act):
            yield _on(context, _table_of(statement), act, made)
        case ScopesRight(operation):
            own = SPECS[operation].own and not (isinstance(statement, Ranged) and statement.all_users)
            yield _on(context, _table_of(statement), "write" if own else act_of(operation), made)
        case _:
            yield from _RULES[right](context, statement, made)


def check_requirement(context: Context, statement: Statement, required: Requirement, made: Made) -> None:
    """Raises:
    Unsupported: the statement's table is of a type that does not support it.
    """
    ref: Ref | None = getattr(statement, "table", None)
    if ref is None or not required.holds_for(statement):
        return
    name = context.named(ref)
    table = context.guarded(name) or made.get(name)
    if table is not None:
        require(table, required.capability, required.what)


def _table_of(statement: Statement) -> Ref:
    assert isinstance(statement, Tabled), "a right on a table belongs to a statement about one"
    return statement.table


def _on(context: Context, ref: Ref, act: TableAct, made: Made) -> Ask:
    """A table that does not exist needs no right, and is not an error yet: an earlier statement may create it."""
    name = context.named(ref)
    return Ask(act, context.guarded(name) or made.get(name) or TableOf(name, "USER"))


def _create(context: Context, statement: CreateTable | CreateTableAs | CreateFromTemplate, made: Made) -> Iterator[Ask]:
    """A source of one's own may be any place that this process reaches, so it needs the right to manage such places."""
    kind = check_type("SHARED" if isinstance(statement, CreateFromTemplate) else statement.type)
    if any(key.upper() == "SOURCE" for key, _ in statement.options) or _chooses_place(context, statement):
        yield Ask("manage storages")
    level = next((value.upper() for key, value in statement.options if key.upper() == "ACCESS_LEVEL"), "PRIVATE")
    name = context.named(statement.table)
    table = TableOf(name, kind, _level(level))
    yield Ask("create", TableOf(name, "SYSTEM") if name.namespace == SYSTEM else table)
    if isinstance(statement, CreateTableAs):
        yield Ask("write", table)
    made[name] = table


def _chooses_place(context: Context, statement: CreateTable | CreateTableAs | CreateFromTemplate) -> bool:
    """Whether a dynamic table says by itself where its files are."""
    if not isinstance(statement, CreateTable) or statement.dynamic is False:
        return False
    return FILE_PATH in context.table_storage or any(key.lower() == FILE_PATH for key, _ in statement.options)


def _level(text: str) -> AccessLevel:
    """The access level that the options name. CREATE TABLE refuses an invalid one later."""
    levels: Mapping[str, AccessLevel] = {"PUBLIC": "PUBLIC", "RESTRICTED": "RESTRICTED", "DBA": "DBA"}
    return levels.get(text, "PRIVATE")


def _describe(context: Context, statement: Describe, made: Made) -> Iterator[Ask]:
    yield Ask("look at what exists")
    if context.named(statement.table).namespace == SYSTEM:  # a table's columns are no rows
        yield _on(context, statement.table, "read", made)


def _job(context: Context, statement: StorageJob, made: Made) -> Iterator[Ask]:
    act = act_of(statement.operation)
    if statement.table is not None:
        yield _on(context, statement.table, act, made)
    else:
        yield Ask(act, TableOf(TableName(statement.namespace or context.namespace or "", ""), "USER"))


def _pipeline(context: Context, statement: AlterRule | DropPipeline, _: Made) -> Iterator[Ask]:
    catalog = context.catalog
    if isinstance(statement, AlterRule):
        rule = catalog.rules.get(statement.rule)
        found = None if rule is None else catalog.pipelines[rule.pipeline_id]
    else:
        found = catalog.pipelines.get(statement.pipeline)
    name = TableName("", "") if found is None else found.table
    yield Ask("alter" if isinstance(statement, AlterRule) else "drop", TableOf(name, "SHARED"))


def _plan(context: Context, statement: ApplyPlan, _: Made) -> Iterator[Ask]:

    return asks_of_plan(context, statement)


_RULES: Mapping[OwnRule, Callable[[Context, Any, Made], Iterator[Ask]]] = {
    "create": _create,
    "describe": _describe,
    "job": _job,
    "pipeline": _pipeline,
    "plan": _plan,
    "read": lambda *_: iter(()),
}


# The rights that applying a plan needs: those of the operation's own statement. Knowing a plan's id grants nothing.
def asks_of_plan(context: Context, statement: ApplyPlan) -> Iterator[Ask]:
    """The rights to check before a plan is applied; empty if the plan does not exist, which applying it reports."""
    request = PlanLog(context.warehouse.state, context.warehouse.erasures).request(statement.id)
    if request is not None:
        yield from asks_of_request(context, request)


def asks_of_request(context: Context, request: Request) -> Iterator[Ask]:
    """Raises:
    Unsupported: the operation has no statement.
    """
    spec = SPECS[request.operation]
    if spec.act is None:
        raise Unsupported(f"{request.operation} has no SQL statement; apply its plan with `lakewarden apply`")
    names = [TableName.parse(name) for name in request.tables] or [table.name for table in live_tables(context.catalog)]
    for name in names:
        table = context.guarded(name) or TableOf(name, "USER")
        own = table.type == "SHARED" or request.user == context.principal.user
        yield Ask("write" if own and spec.own else spec.act, table)
