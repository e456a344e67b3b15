"""SQL for one user in one role."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from lakewarden.base.cancellation import Cancellation
from lakewarden.base.clock import Pause, wait
from lakewarden.base.commit_metadata import carried, carrying
from lakewarden.base.scope import TableName
from lakewarden.base.write_key import begin_statement
from lakewarden.catalog.access import Principal, parse_role
from lakewarden.catalog.evolution import anew
from lakewarden.catalog.model import Catalog, Table
from lakewarden.catalog.session_gate import Door
from lakewarden.catalog.state.audit import AuditLog
from lakewarden.errors import LakewardenError, SchemaChanged
from lakewarden.sql.bind import BoundStatement, bind, bind_all, execute
from lakewarden.sql.context import Context, OpenSession, Services, SessionChoices
from lakewarden.sql.dialect import Value
from lakewarden.sql.parse import Single, parse, singles
from lakewarden.sql.ref import Ref
from lakewarden.sql.results import Result, ResultRows, Rules
from lakewarden.sql.session_block import ReadOnlyBlock, SessionBlock
from lakewarden.sql.statement import Statement, changes_nothing, innermost
from lakewarden.sql.statements.query import Query, described, streamed
from lakewarden.sql.system_listings import VisibleObjects, seen
from lakewarden.sql.temporary import TemporaryTables
from lakewarden.sql.text_bounds import TextBounds
from lakewarden.sql.uploads import File, uploads_for
from lakewarden.sql.writing.shapes import RowWrite
from lakewarden.storage.paths import check_user
from lakewarden.tables.freshness import Freshness, check_freshness
from lakewarden.tables.warehouse import Warehouse, find_table

if TYPE_CHECKING:
    from lakewarden.sql.queries.select import SpooledRows
    from lakewarden.sql.session_table import SessionTable
    from lakewarden.tables.changes.follower import Manner
    from lakewarden.tables.changes.subscription import Subscription
    from lakewarden.tables.rows.files import Upload


# Announces the append of an INSERT before its names are resolved, so that the segments of others wait for it (decision 79).
def announced(warehouse: Warehouse, namespace: str | None, statements: Sequence[Statement]) -> AbstractContextManager[None]:
    """For the time in which the statements run: it ends with their append, or where they do not get so far. The table is the one
    that the name meant within the last second; if it means another by now, some segment of that one waits for a moment.
    """
    ref = statements[0].appends_to() if len(statements) == 1 else None
    table = None if ref is None else _known(warehouse.catalog.recent(), ref, namespace)
    return nullcontext() if table is None else warehouse.log(table).announced()


def _known(catalog: Catalog, ref: Ref, namespace: str | None) -> Table | None:
    """A table whose rows go through the log by their keys."""
    place = ref.namespace or namespace
    table = None if place is None else catalog.tables.get(TableName(place, ref.name))
    return table if table is not None and table.schema.primary_key and not table.schema.of_files else None


def _anew_if_altered(bound: BoundStatement, uploads: Mapping[str, Upload]) -> Result:
    try:
        return execute(bound, uploads)
    except SchemaChanged:
        return anew(lambda: execute(bound.now(), uploads))


class SqlSession:
    """Made by `Lakehouse.session`. A namespace that USE chose stays chosen, and so does what SET chose."""

    def __init__(
        self,
        services: Services,
        principal: Principal,
        rules: Rules = "native",
        namespace: str | None = None,
        *,
        refuses_blocks: str = "",
    ) -> None:
        """
        Args:
            refuses_blocks: why BEGIN is refused, if it is.
        """
        self._services = services
        self._rules = rules
        warehouse = services.warehouse
        self._door = Door(principal, AuditLog(warehouse.state, warehouse.clock, warehouse.new_id))
        self._choices = SessionChoices(namespace=namespace)
        self._temporary = TemporaryTables(warehouse.settings.sql.temporary_bytes)
        self.block = SessionBlock(warehouse.clock, warehouse.settings.sql, self._temporary, refused=refuses_blocks)
        self._opened_at = warehouse.clock()
        self._number = services.sessions.add(self)
        self._bounds = None if services.trusts(principal) else TextBounds.of(warehouse.settings.sql)

    def describe(self) -> OpenSession:
        """The session's current state, for `system.sessions`."""
        mine = self._door.principal
        actor = None if mine.actor is None else mine.actor.user
        return OpenSession(self._number, mine.user, mine.role, actor, self.namespace, self._opened_at, self.block.described())

    def sql(
        self,
        text: str,
        *,
        freshness: Freshness | None = None,
        wait: bool = True,
        files: Mapping[str, File] | None = None,
        each: Callable[[Result], None] | None = None,
        params: Sequence[Value] | None = None,
        cancellation: Cancellation | None = None,
    ) -> list[Result]:
        """As `Lakehouse.sql`; `params` as `parse`, `cancellation` as `run`."""
        statements = self.parsed(text, params)
        return self.run(statements, freshness=freshness, wait=wait, files=files, each=each, cancellation=cancellation)

    def parsed(self, text: str, params: Sequence[Value] | None = None) -> list[Statement]:
        """The statements of a text, for `run`. Raises as `parse`."""
        try:
            return parse(text, self._bounds, params)
        except LakewardenError:
            self.block.fail()
            raise

    def run(
        self,
        statements: Sequence[Statement],
        *,
        freshness: Freshness | None = None,
        wait: bool = True,
        files: Mapping[str, File] | None = None,
        each: Callable[[Result], None] | None = None,
        cancellation: Cancellation | None = None,
    ) -> list[Result]:
        """Checks and runs statements that were parsed before.

        Args:
            cancellation: ends a query, and what comes after it; a statement that writes and has begun runs to its end.

        Raises:
            Canceled: it was cancelled before all statements had run.
        """
        try:
            with nullcontext() if self.block.open else announced(self._services.warehouse, self._choices.namespace, statements):
                context = self._context(freshness, wait=wait, cancellation=cancellation)
                results = self._run(context, statements, files, each)
        except LakewardenError:
            self.block.fail()
            raise
        self.block.rest()
        return results

    def _run(
        self,
        context: Context,
        statements: Sequence[Statement],
        files: Mapping[str, File] | None,
        each: Callable[[Result], None] | None,
    ) -> list[Result]:
        bound = bind_all(context, statements)
        uploads = uploads_for(statements, files or {}, self._services.warehouse.settings.files)
        results: list[Result] = []
        for number, one in enumerate(bound):
            context.cancellation.check()
            begin_statement(number)
            results.append(self._in_block(one.now() if results else one, uploads))
            self._choices = one.statement.choose(self._choices)
            if each is not None:
                each(results[-1])
        return results

    def _in_block(self, bound: BoundStatement, uploads: Mapping[str, Upload]) -> Result:
        """Executes a statement as the block around it allows, if there is one."""
        statement = bound.statement
        if not self.block.open or statement.effect == "block":
            return self._executed(bound, uploads)
        self.block.check()
        if self.block.read_only and not changes_nothing(statement):
            raise ReadOnlyBlock("the block is READ ONLY, and the statement may change something")
        inner = innermost(statement)
        if inner.effect != "at once":
            return self._executed(bound, uploads)
        with self.block.alone(inner.spec.words):
            return self._executed(bound, uploads)

    def _executed(self, bound: BoundStatement, uploads: Mapping[str, Upload]) -> Result:
        """Binds and executes again what met an ALTER, of which nothing was done."""
        if metadata := self._choices.metadata:
            with carrying(metadata):
                return _anew_if_altered(bound, uploads)
        return _anew_if_altered(bound, uploads)  # and what is carried already stays

    def streamed(
        self,
        statements: Sequence[Statement],
        *,
        freshness: Freshness | None = None,
        memory_bytes: int,
        cancellation: Cancellation | None = None,
    ) -> SpooledRows | Result:
        """As `run`, of which it returns the last result. A query's rows beyond `memory_bytes` are in a temporary file, up to
        `sql.result_bytes` in all.
        """
        *first, last = statements
        if not isinstance(last, Query):
            return self.run(statements, freshness=freshness, cancellation=cancellation)[-1]
        self.run(first, freshness=freshness, cancellation=cancellation)

        def read() -> SpooledRows:
            bound = bind(self._context(freshness, wait=True, cancellation=cancellation), last)
            usual = bound.context.limits
            limits = replace(usual, result_bytes=min(memory_bytes, usual.result_bytes), spooled_bytes=usual.result_bytes)
            return streamed(bound.context, last, limits)

        return anew(read)

    @property
    def namespace(self) -> str | None:
        """The namespace in use."""
        return self._choices.namespace

    def forget_settings(self) -> None:
        """What SET chose is as in a new session: a pool hands the connection on."""
        self._choices = SessionChoices(namespace=self.namespace)

    def commit(self) -> str:
        """As the statement COMMIT. Returns what was done, and raises as `SessionBlock.commit`."""
        with carrying(self._choices.metadata or carried()):
            return self.block.commit()

    def singles(self, text: str) -> list[Single]:
        """As `parse.singles`, within the session's bounds."""
        return singles(text, self._bounds)

    def described(self, statement: Statement) -> ResultRows | None:
        """No rows, but the columns that a query would answer with, or RETURNING: nothing runs. None for what has neither.

        Raises: as `run`.
        """
        bound = bind(self._context(None, wait=True), statement)
        while bound.inner is not None:
            bound = bound.inner
        if isinstance(bound.statement, RowWrite) and bound.statement.returning:
            from lakewarden.sql.writing.returning import described_returning  # imports Delta, which a query does not need

            return described_returning(bound.context, bound.statement)
        return described(bound.context, bound.statement) if isinstance(bound.statement, Query) else None

    def over(self, sql: str, relations: Mapping[str, pa.Table]) -> ResultRows:
        """A query in DuckDB's words over these relations, and over nothing of the warehouse. Raises as `QueryEngine.run`."""
        return self._services.workers.run(sql, relations, self._context(None, wait=True).limits)

    def seen(self) -> VisibleObjects:
        """What there is in the warehouse that the session may read."""
        return seen(self._context(None, wait=True))

    def table(self, name: str) -> SessionTable:
        """A table as this session may use it.

        Raises:
            NotFound: the table does not exist.
        """
        from lakewarden.maintenance.open_table import open_table  # imports Delta, which a query without a table does not need
        from lakewarden.sql.session_table import SessionTable

        warehouse = self._services.warehouse
        table = find_table(warehouse.catalog.read(), TableName.parse(name))
        return SessionTable(open_table(warehouse, table, self._door.principal.user), self._door, self.block)

    def execute_as(self, user: str) -> SqlSession:
        """A session as another user, like EXECUTE AS USER.

        Raises:
            PermissionDenied: the role may not act as that user.
        """
        taken = self._door.execute_as(self._services.warehouse.catalog.read(), check_user(user))
        return SqlSession(self._services, taken.principal, self._rules)

    def subscribe(
        self,
        text: str,
        *,
        from_seq: int | None = None,
        last_rows: int | None = None,
        batch_size: int = 10_000,
        interval: float = 0.5,
        timeout: float | None = None,
        pause: Pause = wait,
    ) -> Subscription:
        """As `Lakehouse.subscribe`."""
        from lakewarden.tables.changes.follower import Manner  # imports Delta

        return self.followed(text, Manner(from_seq, last_rows, batch_size, interval, timeout, pause))

    def followed(self, text: str, manner: Manner) -> Subscription:
        """As `subscribe`."""
        from lakewarden.sql.statements.subscribe import open_subscription, subscription_in  # imports Delta

        statement = subscription_in(parse(text, self._bounds))
        return open_subscription(bind(self._context("strong", wait=True), statement), manner)

    def _context(self, freshness: Freshness | None, *, wait: bool, cancellation: Cancellation | None = None) -> Context:
        catalog = self._services.warehouse.catalog.read()
        choices = self._choices
        return Context(
            self._services,
            self._door,
            catalog,
            wait,
            rules=self._rules,
            namespace=choices.namespace,
            freshness=choices.freshness if freshness is None else check_freshness(freshness),
            metadata=choices.metadata,
            table_storage=choices.table_storage,
            temporary=self._temporary,
            block=self.block,
            shadowing=frozenset(self._temporary),
            cancellation=cancellation or Cancellation(),
        )


def open_session(services: Services, user: str, role: str, rules: Rules = "native") -> SqlSession:
    """Raises InvalidArgument: the user's name is not valid, or the role does not exist."""
    return SqlSession(services, Principal(check_user(user), parse_role(role)), rules)
