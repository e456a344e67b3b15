"""Binds statements: resolves their names and checks that the session may run them. Nothing else decides either."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from sqlglot import exp

from lakewarden.base.cancellation import Cancellation
from lakewarden.catalog.access import TableOf, impersonate, require
from lakewarden.catalog.changes.engines import require_active
from lakewarden.catalog.changes.users import role_of
from lakewarden.catalog.model import Table
from lakewarden.catalog.session_gate import Door
from lakewarden.errors import NotFound, PermissionDenied, Unsupported
from lakewarden.sql.context import Context, Subject
from lakewarden.sql.dialect import text_of
from lakewarden.sql.queries.foreign import taken_apart
from lakewarden.sql.ref import Ref
from lakewarden.sql.relations import DEEPEST, VersionedName, ViewQuery, as_they_are, check_ref, check_view, names
from lakewarden.sql.results import Result
from lakewarden.sql.rights import Made
from lakewarden.sql.statement import AuditEntrySpec, ExecuteAs, OnTable, Statement

if TYPE_CHECKING:
    from lakewarden.tables.rows.files import Upload


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
        context, shadowing = statement.choose(context), statement.shadowing(context)
        if shadowing != context.shadowing:
            context = replace(context, shadowing=shadowing)
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
    statement.check_complete(context)
    if isinstance(statement, ExecuteAs):
        other = context.through(_glance(context, statement.user))
        return BoundStatement(statement, context, bind(other, statement.statement, made, first=True))
    spec, context = statement.spec, _about(context, statement)
    subject = context.subject
    own = subject is not None and subject.name in context.shadowing and statement.takes_temporary(subject.name)
    queries = tuple(statement.queries())
    for ask in () if own else spec.right.asks(context, statement, made):
        context.door.allow(ask.act, ask.table)
        if ask.table is not None and ask.act != "drop":
            require_active(context.catalog, ask.table.name.namespace)
    readable = {}
    for table in _read_by(context, statement, queries, made):
        context.door.allow("read", table)
        require_active(context.catalog, table.name.namespace)
        readable[table.name] = table
    if spec.requires is not None and not own:
        spec.requires.check(context, statement, made)
    check = partial(_check, context, statement, queries)
    if statement.checked_by_its_run:
        if first:
            check()
        return BoundStatement(statement, context.to_run(readable, None if first else check))
    check()
    # writes follow from all rows, and run to their end
    return BoundStatement(statement, replace(context, readable=readable, freshness="strong", cancellation=Cancellation()))


def _check(context: Context, statement: Statement, queries: Sequence[exp.Expr]) -> None:
    """Raises:
    BadSyntax, PermissionDenied, InvalidArgument, Unsupported: the engine does not take the text of a query.
    """
    for query in queries:
        with context.door.watched("query"):
            named = query if statement.keeps_its_query else taken_apart(context, query)[0]
            context.engine.check(text_of(as_they_are(named)), context.limits)


def _about(context: Context, statement: Statement) -> Context:
    """The context with the table that the statement is about, if it is about one: nothing looks it up again."""
    ref: Ref | None = getattr(statement, "table", None)
    if context.subject is not None:  # of an earlier state of the catalog, where the statement is bound again
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
    view: Ref | None = getattr(statement, "view", None)
    namespace = context.namespace if view is None else context.named(view).namespace
    if (ref := statement.looks_in) is not None:
        yield from _meant(context, statement, VersionedName(check_ref(ref), None), namespace, made, 0)
    for query in queries:
        yield from _named_in(context, statement, query, namespace, made)
    if statement.reads_own_table and isinstance(statement, OnTable):
        name = context.named(statement.table)
        table = None if name in context.shadowing else context.guarded(name) or made.get(name)
        if table is not None:
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
        if statement.keeps_its_query:
            raise Unsupported(f"{name} is a temporary table{statement.keeps_its_query}")
        if named.as_of is not None:
            raise Unsupported(f"{name} is a temporary table, which has no versions")
        return
    if name in made:
        yield made[name]
        return
    try:
        found = context.meant(name)
    except NotFound:
        return  # an earlier statement may create it
    if isinstance(found, ViewQuery):
        check_view(named)
        yield from _named_in(context, statement, found.query, found.namespace, made, depth + 1)
        return
    yield found
    if named.as_of is not None:  # behind the right to read it
        require(found, "cold tier", "reading an earlier version")


def execute(bound: BoundStatement, uploads: Mapping[str, Upload]) -> Result:
    """Raises LakewardenError: the statement failed."""
    bound = bound.entered()
    statement, context = bound.statement, replace(bound.context, uploads=uploads) if uploads else bound.context
    spec = statement.spec
    result = spec.handler(context, statement)
    if spec.audited is not None and not getattr(statement, "dry_run", False):  # a dry run changes nothing
        context.door.audit.note(context.principal, spec.audited.action, _target(context, statement, spec.audited))
    return result


def _target(context: Context, statement: Statement, audited: AuditEntrySpec) -> str:
    """A table or view by its whole name, anything else by its id."""
    found = getattr(statement, audited.field)
    return f"{audited.kind}:{context.named(found) if isinstance(found, Ref) else found}"
