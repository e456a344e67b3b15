"""SUBSCRIBE: a query over one table, which DuckDB evaluates over new rows of the log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import pyarrow as pa
from sqlglot import exp

from lakewarden.base.scope import TableName
from lakewarden.catalog.access import require
from lakewarden.catalog.model import Table
from lakewarden.errors import InvalidArgument, Unsupported
from lakewarden.sql.bind import BoundStatement, bind
from lakewarden.sql.context import Context
from lakewarden.sql.dialect import text_of
from lakewarden.sql.queries import select
from lakewarden.sql.reader import StatementReader
from lakewarden.sql.ref import Pairs
from lakewarden.sql.relations import SEQ, ViewQuery, names
from lakewarden.sql.results import Events
from lakewarden.sql.rights import READS
from lakewarden.sql.statement import Effect, ExecuteAs, Grammar, Statement, StatementSpec, registered
from lakewarden.sql.statements.query import Query
from lakewarden.tables.changes.follower import FollowBounds, Follower, FollowRequest, Manner
from lakewarden.tables.changes.log_reader import Row
from lakewarden.tables.changes.subscription import Subscription

LARGEST = 2**63 - 1
"""Of the numbers of a subscription."""


@dataclass(frozen=True)
class Subscribe(Statement):
    query: exp.Query
    options: Pairs = ()
    effect: ClassVar[Effect] = "reads"
    keeps_its_query: ClassVar[str] = ", which has no changes to subscribe to"

    def queries(self) -> Iterator[exp.Expr]:
        yield self.query


_TABLE_PARTS = ("this", "db", "catalog", "alias")
"""The fields of a table in FROM except samples, pivots and joins."""

_MOST_DIGITS = 19
_SUBSCRIBE_OPTIONS = ("last_rows", "batch_size", "from", "from_seq_id")


def read_subscribe(read: StatementReader) -> Statement:
    """Reads what follows SUBSCRIBE: a table with a condition, or a SELECT of some of its columns."""
    read.expect("TO")
    if read.word("SELECT"):
        read._retreat(read._index - 1)
        query = read.query_up_to("OPTIONS")
    else:
        ref = read.ref()
        query = exp.select("*").from_(exp.table_(ref.name, ref.namespace, quoted=True))
        if read.word("WHERE"):
            query = query.where(read.condition())
    return Subscribe(one_table(query), _read_options(read))


def one_table(query: exp.Query) -> exp.Select:
    """Returns the query of a subscription.

    Raises:
        InvalidArgument: the query is more than a selection of one table's rows.
    """
    parts = {name for name, value in query.args.items() if value}
    if "from_" not in parts:
        raise InvalidArgument("a subscription is SELECT columns FROM one table WHERE condition; this one has no table")
    if not isinstance(query, exp.Select) or parts - {"expressions", "from_", "where", "kind"}:
        raise InvalidArgument("a subscription is SELECT columns FROM one table WHERE condition, and nothing else")
    if next(query.find_all(exp.AggFunc, exp.Window, exp.Join, exp.Subquery), None) or len(list(query.find_all(exp.Select))) > 1:
        raise InvalidArgument("a subscription takes no join, subquery or aggregate")
    table = query.args["from_"].this
    plain = isinstance(table, exp.Table) and isinstance(table.this, exp.Identifier)
    if not plain or any(value and name not in _TABLE_PARTS for name, value in table.args.items()):
        raise InvalidArgument("a subscription reads the rows of a table")
    return query


def _read_options(read: StatementReader) -> tuple[tuple[str, str], ...]:
    if not read.word("OPTIONS"):
        return ()
    pairs = read.pairs()
    for key, value in pairs:
        if key.lower() not in _SUBSCRIBE_OPTIONS:
            raise InvalidArgument(f"SUBSCRIBE has no option {key}; it has {', '.join(_SUBSCRIBE_OPTIONS)}")
        if not (value.isascii() and value.isdigit() and len(value) <= _MOST_DIGITS and int(value) <= LARGEST):
            raise InvalidArgument(f"SUBSCRIBE option {key}: {value[:_MOST_DIGITS]!r} is not a whole number of up to 64 bits")
    return pairs


_PLACE = "_lakewarden_place"
"""The column that carries a row's `_seq`."""


def subscription_in(statements: Sequence[Statement]) -> Statement:
    """The SUBSCRIBE of a text, also where it is a SELECT alone.

    Raises:
        InvalidArgument: it is not a SUBSCRIBE, or not a single statement.
    """
    match statements:
        case [Query(query)]:
            return Subscribe(one_table(query))
        case [Subscribe() as statement] | [ExecuteAs(statement=Subscribe()) as statement]:
            return statement
        case _:
            raise InvalidArgument("a subscription is one statement: SELECT … FROM table WHERE …, or SUBSCRIBE TO …")


def open_subscription(bound: BoundStatement, manner: Manner) -> Subscription:
    """Opens the subscription; its initial rows are ready.

    Raises:
        NotFound, InvalidArgument, Unsupported: this session cannot subscribe to this query.
    """
    bound = bound.entered()
    statement = bound.statement
    assert isinstance(statement, Subscribe), "the parser accepts nothing else"
    return _opened(bound.context, statement, manner)


def _opened(context: Context, statement: Subscribe, manner: Manner) -> Subscription:
    manner = _checked(_with_options(manner, statement.options))
    table = _table(context, statement.query)
    settings = context.warehouse.settings.sql
    trusted = context.services.trusts(context.principal)
    bounds = None if trusted else FollowBounds(settings.subscription_rows, settings.result_bytes)
    request = FollowRequest(table.name, context.owner(table), text_of(statement.query), manner, bounds)
    matches = _Matches(context, table.name, statement.query)
    follower = Follower(context.warehouse, context.services.feeds(), request, matches)
    return Subscription(follower, follower.begin(), manner)


def peek(context: Context, statement: Subscribe) -> Events:
    """The initial rows of a subscription, or the changes since its `from`; it does not stay open."""
    with _opened(context, statement, Manner()) as subscription:
        return Events(tuple(subscription.poll()))


def _with_options(manner: Manner, options: Pairs) -> Manner:
    given = {key.lower(): int(value) for key, value in options}
    if "from" in given and "from_seq_id" in given:
        raise InvalidArgument("SUBSCRIBE options from and from_seq_id mean the same: give only one of them")
    return replace(
        manner,
        from_seq=given.get("from", given.get("from_seq_id")) if manner.from_seq is None else manner.from_seq,
        last_rows=given.get("last_rows", manner.last_rows),
        batch_size=given.get("batch_size", manner.batch_size),
    )


def _checked(manner: Manner) -> Manner:
    for name in ("from_seq", "last_rows", "batch_size"):
        if (number := getattr(manner, name)) is not None and number > LARGEST:
            raise InvalidArgument(f"{name}: {str(number)[:20]} is more than 64 bits hold")
    if manner.last_rows is not None and manner.last_rows < 0:
        raise InvalidArgument(f"last_rows {manner.last_rows}: the number of initial rows must be 0 or more")
    if manner.batch_size < 1:
        raise InvalidArgument(f"batch_size {manner.batch_size}: the number of rows read at once must be 1 or more")
    if not manner.interval > 0:
        raise InvalidArgument(f"interval {manner.interval}: the seconds between two polls must be above 0")
    if manner.timeout is not None and not manner.timeout >= 0:
        raise InvalidArgument(f"timeout {manner.timeout}: the seconds without an event must be 0 or more")
    return manner


def _table(context: Context, query: exp.Query) -> Table:
    ref = next(names(query)).ref
    found = context.meant(context.named(ref))
    if isinstance(found, ViewQuery):
        raise Unsupported(f"{ref} is a view; a subscription needs a table")
    require(found, "subscriptions", "subscriptions")
    assert isinstance(found, Table), "relations of the system namespace take none"
    return found


@dataclass(frozen=True)
class _Matches:
    """The rows that the query selects. Binds it each time: the table and the rights to it may have changed."""

    context: Context
    table: TableName
    query: exp.Query

    def __call__(self, table: Table, rows: pa.Table) -> Mapping[int, Row]:
        query = self.query.copy()
        assert isinstance(query, exp.Select), "the parser accepts nothing else"
        query.select(exp.alias_(exp.column(SEQ), _PLACE, quoted=True), copy=False)
        context = replace(self.context, catalog=self.context.warehouse.catalog.read())
        bound = bind(context, Query.of(query))
        found = select.run(bound.context, query, {self.table: rows}).to_pylist()
        matched = {_place(row): row for row in found}
        if len(matched) < len(found):
            raise InvalidArgument("a subscription shows each row once: its columns must not expand a row into several")
        return matched


def _place(row: dict[str, object]) -> int:
    place = row.pop(_PLACE)
    assert isinstance(place, int), "every row has a _seq"
    return place


ROWS = registered(
    StatementSpec(
        "SUBSCRIBE TO t [WHERE …] [OPTIONS (…)] or SUBSCRIBE TO SELECT … FROM t [WHERE …] [OPTIONS (…)]",
        "returns the events that a subscription begins with",
        READS,
        peek,
    ),
)

GRAMMARS: Mapping[str, Grammar] = {"SUBSCRIBE": read_subscribe}
