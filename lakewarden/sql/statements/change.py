"""UPDATE and DELETE. In the log, each reads, decides, and writes directly after the position that it read. If another
write came in between, it reads and decides again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import pyarrow as pa
from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from lakewarden.errors import InvalidArgument
from lakewarden.sql.context import Context
from lakewarden.sql.queries import select
from lakewarden.sql.reader import StatementReader
from lakewarden.sql.ref import Ref
from lakewarden.sql.relations import SEQ
from lakewarden.sql.results import AffectedRows
from lakewarden.sql.rights import Requirement, table_right
from lakewarden.sql.statement import Grammar, Statement, StatementSpec, computed, registered
from lakewarden.sql.statements.clauses import alias_of, assignments_of, only, ref_of, returning_of, where_of
from lakewarden.sql.writing.direct import delete_directly, update_directly
from lakewarden.sql.writing.returning import Returning
from lakewarden.sql.writing.shapes import RowWrite, Verb
from lakewarden.sql.writing.target import Assignment, WriteTarget, changed, node_of, revision_query, target_of
from lakewarden.tables.intake import Revision


@dataclass(frozen=True)
class ConditionalWrite(RowWrite):
    """Its WHERE decides which rows. `where` is None where the text has none, which only K3's rules allow."""

    where: exp.Expr | None
    alias: str | None = None

    @property
    def form(self) -> None:
        return None

    @property
    def condition(self) -> exp.Expr | None:
        return self.where

    @property
    def chosen(self) -> exp.Expr:
        """The condition of the rows, for a query that may change it."""
        return exp.true() if self.where is None else self.where.copy()

    def check_complete(self, context: Context) -> None:
        """Raises InvalidArgument: it has no WHERE, which only K3's rules allow."""
        if self.where is None and context.rules == "native":
            raise InvalidArgument(f"{self.table}: {self.verb} needs a WHERE; WHERE true means every row")


@dataclass(frozen=True)
class Update(ConditionalWrite):
    assignments: tuple[Assignment, ...] = field(kw_only=True)
    verb: ClassVar[Verb] = "UPDATE"

    def sets(self) -> Iterator[Ref | None]:
        yield from (each.of for each in self.assignments)

    def queries(self) -> Iterator[exp.Expr]:
        return computed(*(each.value for each in self.assignments), self.where, *self.returning)


@dataclass(frozen=True)
class Delete(ConditionalWrite):
    verb: ClassVar[Verb] = "DELETE"

    def queries(self) -> Iterator[exp.Expr]:
        return computed(self.where, *self.returning)


_UPDATE_PARTS = frozenset({"this", "expressions", "where", "returning"})
_DELETE_PARTS = frozenset({"this", "where", "returning"})


def read_update(read: StatementReader) -> Statement:
    """Reads what follows UPDATE."""
    start = read._index
    found = read._parse_update()
    only(read, found, _UPDATE_PARTS, "UPDATE")
    if not found.expressions:
        raise read.failure("expected SET with at least one assignment")
    if read.clauses(start, (TokenType.SET, TokenType.WHERE)) not in (["SET"], ["SET", "WHERE"]):  # sqlglot keeps the last of each
        raise read.misread("UPDATE takes one SET, and behind it one WHERE")
    assignments = assignments_of(read, found.expressions)
    return Update(
        ref_of(read, found.this),
        where_of(found),
        alias_of(found.this),
        assignments=assignments,
        returning=returning_of(read, found),
    )


def read_delete(read: StatementReader) -> Statement:
    """Reads what follows DELETE."""
    if not read.word("FROM"):
        raise read.failure("expected FROM")
    read._retreat(read._index - 1)
    found = read._parse_delete()
    only(read, found, _DELETE_PARTS, "DELETE")
    return Delete(ref_of(read, found.this), where_of(found), alias_of(found.this), returning=returning_of(read, found))


def update(context: Context, statement: Update) -> AffectedRows:
    """Raises:
    Unsupported: the statement sets a column of the key.
    ConstraintViolation, InvalidArgument: a value does not fit, or a column does not exist. Nothing was written.
    """
    target = target_of(context, statement)
    returning = Returning(context, target, statement)
    returning.check_in_log(target.plan)
    query = revision_query(target, statement.assignments, statement.known_as)
    query = query.where(statement.chosen, copy=False)
    if not target.plan.in_log:
        return update_directly(context, target, query, statement.assignments)

    def decide(live: pa.Table) -> pa.Table:
        found = select.run(context, query, {target.table.name: live})
        return changed(context, target, found, statement.assignments, returning.note)

    return returning.of(target.affected(_revised(context, target, query, decide)))


def delete(context: Context, statement: Delete) -> AffectedRows:
    target = target_of(context, statement)
    returning = Returning(context, target, statement)
    returning.check_in_log(target.plan)
    if target.schema.append_only:
        return _delete_from_stream(context, statement, target, returning)
    key = target.schema.primary_key or target.schema.names[:1]
    query = _deleted(statement, target, key)
    if not target.plan.in_log:
        return delete_directly(context, target, query)

    def decide(live: pa.Table) -> Revision:
        return Revision(removed=returning.split(select.run(context, query, {target.table.name: live}), key))

    return returning.of(target.affected(_revised(context, target, query, decide)))


def _revised(context: Context, target: WriteTarget, query: exp.Select, decide: Callable[[pa.Table], pa.Table | Revision]) -> int:
    """`decide` takes the rows that the query may be about, whatever of them it names."""
    needed = replace(select.pushdown_on(context, query, target.table).selection, number_only=False)
    return target.client.revise(decide, user=target.user, wanted=needed)


def _deleted(statement: Delete, target: WriteTarget, names: Sequence[str]) -> exp.Select:
    """Selects these columns of the rows that go, and what RETURNING says of them."""
    alias = statement.known_as
    own = [exp.alias_(exp.column(name, alias, quoted=True), f"key {at}", quoted=True) for at, name in enumerate(names)]
    query = exp.select(*own, *(each.copy() for each in statement.returning), copy=False)
    return query.from_(node_of(target.table, alias), copy=False).where(statement.chosen, copy=False)


def _delete_from_stream(context: Context, statement: Delete, target: WriteTarget, returning: Returning) -> AffectedRows:
    """Rows of a stream are identified by their place in the log: they may have no key, or share one."""
    assert target.user is not None, "a STREAM table has a scope per user"
    found = returning.split(select.run(context, _deleted(statement, target, (SEQ,))), (SEQ,))
    seqs = [int(seq) for seq in found.column(0).to_numpy()]
    return returning.of(target.affected(target.client.delete_rows(seqs, user=target.user).rows))


ROWS = registered(
    StatementSpec(
        "UPDATE t SET … WHERE … [RETURNING …]",
        "changes rows",
        table_right("write"),
        update,
        requires=Requirement("updates", "UPDATE"),
    ),
    StatementSpec("DELETE FROM t WHERE … [RETURNING …]", "removes rows", table_right("write"), delete),
)

GRAMMARS: Mapping[str, Grammar] = {"UPDATE": read_update, "DELETE": read_delete}
