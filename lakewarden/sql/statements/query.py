"""SELECT and EXPLAIN."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

from sqlglot import exp
from sqlglot.tokenizer_core import Token

from lakewarden.sql.context import Context
from lakewarden.sql.dialect import QUERIES_BEGIN
from lakewarden.sql.queries import select
from lakewarden.sql.queries.look_up_texts import LookUp, look_up_in
from lakewarden.sql.queries.look_ups import bound_look_up
from lakewarden.sql.queries.select import SpooledRows
from lakewarden.sql.query_engine.engine import Limits
from lakewarden.sql.reader import StatementReader
from lakewarden.sql.ref import Ref
from lakewarden.sql.results import ResultRows
from lakewarden.sql.rights import READS
from lakewarden.sql.statement import Effect, Grammar, ListStatement, Statement, StatementSpec, registered


@dataclass(frozen=True)
class Query(Statement):
    parsed: Callable[[], exp.Query] = field(repr=False)
    """A look-up that is answered without the engine never needs its tree."""
    look_up: LookUp | None = None
    effect: ClassVar[Effect] = "reads"
    checked_by_its_run: ClassVar[bool] = True

    __match_args__ = ("query",)

    @classmethod
    def of(cls, query: exp.Query) -> Query:
        return cls(lambda: query)

    @cached_property
    def query(self) -> exp.Query:
        return self.parsed()

    def recognized(self, tokens: Sequence[Token]) -> Query:
        look_up = look_up_in(tokens, self.query)
        return self if look_up is None else replace(self, look_up=look_up)

    def queries(self) -> Iterator[exp.Expr]:
        if self.look_up is None:
            yield self.query

    @property
    def looks_in(self) -> Ref | None:
        return None if self.look_up is None else self.look_up.shape.table


@dataclass(frozen=True)
class Explain(ListStatement):
    query: exp.Query
    checked_by_its_run: ClassVar[bool] = True

    def queries(self) -> Iterator[exp.Expr]:
        yield self.query


def read_query(read: StatementReader) -> Statement:
    """Reads a query from its first word on, which was read to tell what it is."""
    read._retreat(read._index - 1)
    return Query.of(read.query())


def query(context: Context, statement: Query) -> ResultRows:
    look_up = bound_look_up(context, statement.look_up)
    rows = None if look_up is None else look_up.rows()
    return select.run(context, statement.query) if rows is None else rows


def streamed(context: Context, statement: Query, limits: Limits) -> SpooledRows:
    """As `select.spooled`."""
    look_up = bound_look_up(context, statement.look_up)
    rows = None if look_up is None else look_up.rows()
    if rows is None:
        return select.spooled(context, statement.query, limits)
    return SpooledRows(tuple(rows.columns), rows.types, rows.table)


def described(context: Context, statement: Query) -> ResultRows:
    """No rows, but the columns of the answer. Raises as `select.run`."""
    if (look_up := bound_look_up(context, statement.look_up)) is not None:
        return look_up.described()
    return select.described_query(context, statement.query)


def explain(context: Context, statement: Explain) -> ResultRows:
    return select.explain(context, statement.query)


ROWS = registered(
    StatementSpec(
        "SELECT … [FROM t VERSION AS OF v or TIMESTAMP AS OF 'text' …]",
        "reads rows, or those of a version of the past",
        READS,
        query,
    ),
    StatementSpec("EXPLAIN SELECT …", "shows how a query would run", READS, explain),
)

GRAMMARS: Mapping[str, Grammar] = {**dict.fromkeys(QUERIES_BEGIN, read_query), "EXPLAIN": lambda read: Explain(read.query())}
