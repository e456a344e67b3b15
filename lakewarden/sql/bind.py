"""Binds statements: resolves their names and checks that the session may run them. Nothing else decides either."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from sqlglot import exp

from lakewarden.base.cancellation import Cancellation
from lakewarden.base.scope import TableName
from lakewarden.catalog.access import TableOf, impersonate, require
from lakewarden.catalog.changes.engines import require_active
from lakewarden.catalog.changes.users import role_of
from lakewarden.catalog.model import Table
from lakewarden.errors import InvalidArgument, NotFound, PermissionDenied, Unsupported
from lakewarden.maintenance.admin.session_gate import Door
from lakewarden.sql.block_rules import words_of
from lakewarden.sql.context import Context, Subject
from lakewarden.sql.queries.foreign import taken_apart
from lakewarden.sql.queries.texts import text_of
from lakewarden.sql.relations import DEEPEST, VersionedName, ViewQuery, as_they_are, check_ref, check_view, names
from lakewarden.sql.results import Result
from lakewarden.sql.rights import Made, asks_of, check_requirement
from lakewarden.sql.specs.spec import AuditEntrySpec, StatementSpec
from lakewarden.sql.specs.statements import STATEMENTS
from lakewarden.sql.statements.base import Ref, Statement
from lakewarden.sql.statements.definitions import (
    CreateFromTemplate,
    CreateTable,
    CreateTableAs,
    CreateTemporaryTable,
    CreateView,
    DropTable,
    DropTemporaryTable,
    UseNamespace,
)
from lakewarden.sql.statements.others import ExecuteAs, Forbidden, UnsupportedStatement
from lakewarden.sql.statements.rows import Delete, Explain, Insert, Merge, Overwrite, Query, Subscribe, Update
from lakewarden.sql.statements.session import BlockStatement, Describe, SetFreshness, SetTableStorage

if TYPE_CHECKING:
    from lakewarden.tables.rows.files import Upload


# Finds the parts of a statement that DuckDB computes.
def queries_of(statement: Statement) -> Iterator[exp.Expr]:
    """Returns each as a query of its own."""
    match statement:
        case Query() | Explain() | Subscribe() | CreateView() | CreateTableAs():
            yield statement.query
        case Insert() | Overwrite():
            yield from _rows_of(statement)
        case Update():
            yield from _computed(*(each.value for each in statement.assignments), statement.where)
        case Delete():
            yield from _computed(statement.where)
        case Merge():
            yield exp.select("*").from_(statement.source.copy(), copy=False)
            values = (value for when in statement.whens for value in (when.condition, *when.values))
            yield from _computed(statement.on, *values)
        case _:
            pass  # computes nothing


def _rows_of(statement: Insert | Overwrite) -> Iterator[exp.Expr]:
    if statement.rows is not None and not statement.is_plain:
        yield statement.rows
    conflict = statement.conflict if isinstance(statement, Insert) else None
    if conflict is not None:
        yield from _computed(*(each.value for each in conflict.assignments or ()), conflict.where)


def _computed(*expressions: exp.Expr | None) -> Iterator[exp.Expr]:
    values = [each.copy() for each in expressions if each is not None]
    if values:
        yield exp.select(*values, copy=False)


# What statements do with temporary tables, and what their names mean for the statements that follow.
Names = frozenset[TableName]

_OF_THE_WAREHOUSE = (CreateTable, CreateTableAs, CreateFromTemplate)
"""Statements whose name is that of a table of the warehouse, whatever the session has."""


def is_about(statement: Statement, name: TableName, shadowing: Names) -> bool:
    """Whether the statement is about a temporary table, which needs no right: it is the session's own.

    Raises:
        InvalidArgument, Unsupported: temporary tables take no such statement.
    """
    if name not in shadowing or isinstance(statement, _OF_THE_WAREHOUSE):
        return False
    if isinstance(statement, DropTable):
        raise InvalidArgument(f"{name} means the session's temporary table here: DROP TEMPORARY TABLE {name} first")
    plain = isinstance(statement, Insert) and statement.conflict is None and not statement.files
    shown = isinstance(statement, Describe) and not statement.versions
    if not (plain or shown or isinstance(statement, (CreateTemporaryTable, DropTemporaryTable))):
        raise Unsupported(
            f"{name} is a temporary table, which takes SELECT, INSERT (without ON CONFLICT and FILE), DESCRIBE and"
            " DROP TEMPORARY TABLE only"
        )
    return True


def check_read(statement: Statement, name: TableName, *, as_of: bool) -> None:
    """Raises:
    Unsupported: the query of the statement cannot read a temporary table.
    """
    if isinstance(statement, CreateView):
        raise Unsupported(f"{name} is a temporary table: a view outlives the session, and so reads tables of the warehouse only")
    if isinstance(statement, Subscribe):
        raise Unsupported(f"{name} is a temporary table, which has no changes to subscribe to")
    if as_of:
        raise Unsupported(f"{name} is a temporary table, which has no versions")


def shadowing_after(statement: CreateTemporaryTable | DropTemporaryTable, name: TableName, shadowing: Names) -> Names:
    """The names that mean temporary tables behind the statement."""
    return shadowing | {name} if isinstance(statement, CreateTemporaryTable) else shadowing - {name}


_KEPT_QUERIES = (CreateView, Subscribe)
"""Statements whose queries run again in other sessions: they read no table by its URI."""


@dataclass(frozen=True)
class BoundStatement:
    """A statement that the gate allowed, and the catalog version that its names were resolved in."""

    statement: Statement
    context: Context
    inner: BoundStatement | None = None
    """The inner statement of EXECUTE AS, bound as the other user."""

    def entered(self) -> BoundStatement:
        """The innermost statement. Records each EXECUTE AS on the way."""
        if self.inner is None or not isinstance(self.statement, ExecuteAs):
            return self
        self.context.door.execute_as(self.context.catalog, self.statement.user)
        return self.inner.entered()

    def now(self) -> BoundStatement:
        """Binds again if the catalog has changed since; raises as `bind`."""
        catalog = self.context.warehouse.catalog.read()
        if catalog.version == self.context.catalog.version:
            return self
        return bind(replace(self.context, catalog=catalog, readable={}), self.statement)


def bind_all(context: Context, statements: Sequence[Statement]) -> list[BoundStatement]:
    """Binds every statement of a text, and considers its USE statements and the tables that it creates.

    Raises:
        PermissionDenied, FailedPrecondition, Unsupported, InvalidArgument, BadSyntax: the first statement that is not
            allowed; nothing has run.
    """
    made: Made = {}
    bound = []
    for statement in statements:
        bound.append(bind(context, statement, made, first=len(statements) > 1))
        match statement:
            case UseNamespace(name):
                context = replace(context, namespace=name)
            case SetFreshness(freshness):
                context = replace(context, freshness=freshness)
            case SetTableStorage(key, value):
                context = replace(context, table_storage={**context.table_storage, key: value})
        temporary = statement.statement if isinstance(statement, ExecuteAs) else statement
        if isinstance(temporary, (CreateTemporaryTable, DropTemporaryTable)):
            found = context.named(temporary.table)
            context = replace(context, shadowing=shadowing_after(temporary, found, context.shadowing))
    return bound


def bind(context: Context, statement: Statement, made: Made | None = None, *, first: bool = False) -> BoundStatement:
    """Binds one statement. A table that does not exist is not an error yet: an earlier statement may create it.

    Args:
        made: tables that earlier statements of the text create; this statement's are added.
        first: whether other statements run before it, which must not happen if the engine refuses a query. Else the run
            of a query checks it: that is one message to a worker, not two.

    Raises: as `bind_all`.
    """
    made = {} if made is None else made
    _check_known(context, statement)
    if isinstance(statement, ExecuteAs):
        return BoundStatement(
            statement, context, bind(context.through(_glance(context, statement.user)), statement.statement, made, first=True)
        )
    spec, context = STATEMENTS[type(statement)], _about(context, statement)
    own = context.subject is not None and is_about(statement, context.subject.name, context.shadowing)
    queries = () if isinstance(statement, Query) and statement.look_up is not None else tuple(queries_of(statement))
    for ask in () if own else asks_of(context, statement, spec.right, made):
        context.door.allow(ask.act, ask.table)
        if ask.table is not None and ask.act != "drop":
            require_active(context.catalog, ask.table.name)
    readable = {}
    for table in _read_by(context, statement, queries, made):
        context.door.allow("read", table)
        require_active(context.catalog, table.name)
        readable[table.name] = table
    if spec.requires is not None and not own:
        check_requirement(context, statement, spec.requires, made)
    check = partial(_check, context, statement, queries)
    if isinstance(statement, (Query, Explain)):
        if first:
            check()
        return BoundStatement(statement, replace(context, readable=readable, check=None if first else check))
    check()
    # writes follow from all rows, and run to their end
    return BoundStatement(statement, replace(context, readable=readable, freshness="strong", cancellation=Cancellation()))


def _check(context: Context, statement: Statement, queries: Sequence[exp.Expr]) -> None:
    """Raises:
    BadSyntax, PermissionDenied, InvalidArgument, Unsupported: the engine does not take the text of a query.
    """
    with context.door.watched("query"):
        for query in queries:
            named = query if isinstance(statement, _KEPT_QUERIES) else taken_apart(context, query)[0]
            context.engine.check(text_of(as_they_are(named)), context.limits)


def _check_known(context: Context, statement: Statement) -> None:
    if isinstance(statement, Forbidden):
        with context.door.watched(statement.what):
            raise PermissionDenied(
                f"{statement.what} is not available in SQL: a statement can use the session's tables and nothing else"
            )
    if isinstance(statement, UnsupportedStatement):
        if "DATABASE" in statement.what:
            context.door.allow("back up the database")
        raise Unsupported(f"{statement.what}: recognized, but not supported")
    if isinstance(statement, BlockStatement):
        context.block.check_allowed(words_of(statement))
    if isinstance(statement, (Update, Delete)) and statement.where is None and context.rules == "native":
        verb = type(statement).__name__.upper()
        raise InvalidArgument(f"{statement.table}: {verb} needs a WHERE; WHERE true means every row")


def _about(context: Context, statement: Statement) -> Context:
    """The context with the table that the statement is about, if it is about one: nothing looks it up again."""
    ref: Ref | None = getattr(statement, "table", None)
    context = replace(context, subject=None)
    if ref is None:
        return context
    name = context.named(ref)
    return replace(context, subject=Subject(ref, name, None if name in context.shadowing else context.guarded(name)))


def _glance(context: Context, user: str) -> Door:
    """The door of the other user. Records a refusal here; `BoundStatement.entered` records an entry.

    Raises:
        PermissionDenied: the session's role may not act as that user.
    """
    try:
        return Door(impersonate(context.principal, user, role_of(context.catalog, user)), context.door.audit)
    except PermissionDenied:
        return context.door.execute_as(context.catalog, user)


def _read_by(context: Context, statement: Statement, queries: Sequence[exp.Expr], made: Made) -> Iterator[Table | TableOf]:
    """The tables that a statement's queries read, and its own table where the result depends on the existing rows."""
    namespace = context.named(statement.view).namespace if isinstance(statement, CreateView) else context.namespace
    if isinstance(statement, Query) and statement.look_up is not None:
        ref = check_ref(statement.look_up.shape.table)
        yield from _meant(context, statement, VersionedName(ref, None), namespace, made, 0)
    for query in queries:
        yield from _named_in(context, statement, query, namespace, made)
    if isinstance(statement, (Update, Delete, Insert, Merge)) and context.named(statement.table) not in context.shadowing:
        name = context.named(statement.table)
        table = context.guarded(name) or made.get(name)
        if table is not None and not (isinstance(statement, Insert) and statement.conflict is None):
            yield table


def _named_in(
    context: Context, statement: Statement, query: exp.Expr, namespace: str | None, made: Made, depth: int = 0
) -> Iterator[Table | TableOf]:
    """A view's tables count as the query's own."""
    if depth > DEEPEST:
        raise Unsupported(f"views are nested more than {DEEPEST} deep")
    for named in names(query):
        yield from _meant(context, statement, named, namespace, made, depth)


def _meant(
    context: Context, statement: Statement, named: VersionedName, namespace: str | None, made: Made, depth: int
) -> Iterator[Table | TableOf]:
    name = context.named(named.ref, namespace)
    if name in context.shadowing:
        check_read(statement, name, as_of=named.as_of is not None)
        return
    if name in made:
        yield made[name]
        return
    try:
        found = context.relation(named.ref, namespace)
    except NotFound:
        return  # an earlier statement may create it
    if isinstance(found, ViewQuery):
        check_view(named)
        yield from _named_in(context, statement, found.query, found.namespace, made, depth + 1)
        return
    table = context.guarded(found)
    assert table is not None, "what a name means exists"
    yield table
    if named.as_of is not None:  # behind the right to read it
        require(table, "cold tier", "reading an earlier version")


# Executes a bound statement.
Handler = Callable[[Context, Any], Result]


def execute(bound: BoundStatement, uploads: Mapping[str, Upload]) -> Result:
    """Raises:
    LakewardenError: the statement failed.
    """
    bound = bound.entered()
    statement, context = bound.statement, replace(bound.context, uploads=uploads)
    spec = STATEMENTS[type(statement)]
    result = handler_of(spec)(context, statement)
    if spec.audited is not None and not getattr(statement, "dry_run", False):  # a dry run changes nothing
        context.door.audit.note(context.principal, spec.audited.action, _target(context, statement, spec.audited))
    return result


def _target(context: Context, statement: Statement, audited: AuditEntrySpec) -> str:
    """A table or view by its whole name, anything else by its id."""
    found = getattr(statement, audited.field)
    return f"{audited.kind}:{context.named(found) if isinstance(found, Ref) else found}"


def handler_of(spec: StatementSpec) -> Handler:
    module, _, name = spec.handler.partition(".")
    return cast("Handler", getattr(import_module(f"lakewarden.sql.handlers.{module}"), name))
