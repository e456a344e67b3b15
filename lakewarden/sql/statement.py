"""What a statement is, and what there is to know of one: `sql/statements/` has a file for each family.

A statement is a frozen value. Its names are not resolved: a table's name is as written, and options and types are text that the
catalog's rules check. Queries and expressions are sqlglot's trees; code that rewrites one copies it first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal, TypeVar, cast, get_type_hints

from sqlglot import exp
from sqlglot.tokenizer_core import Token

from lakewarden.base.scope import TableName
from lakewarden.errors import PermissionDenied, Unsupported
from lakewarden.sql.context import Context, SessionChoices
from lakewarden.sql.reader import StatementReader
from lakewarden.sql.ref import Ref
from lakewarden.sql.results import Result, ResultRows
from lakewarden.sql.rights import READS, Requirement, Right

Grammar = Callable[[StatementReader], "Statement"]

Names = frozenset[TableName]
"""Those that mean temporary tables of the session."""


@dataclass(frozen=True)
class AuditEntrySpec:
    """The audit entry of a completed statement: its action, and its target: what kind, in which field of the statement."""

    action: str
    kind: str
    field: str = "id"


Effect = Literal["reads", "lists", "session", "block", "rows", "at once"]
"""What a statement changes: nothing, nothing (and it answers with few rows), what the session chose or has, its block, rows, or
something that no ROLLBACK undoes.
"""


_WITH_OBJECT = ("CREATE", "ALTER", "DROP", "ENABLE", "DISABLE")


@dataclass(frozen=True)
class StatementSpec:
    """The row of one class of statements."""

    syntax: str
    """As the reference shows it."""
    does: str
    """What it does, as the reference says it."""
    right: Right
    handler: Callable[[Context, Any], Result]
    requires: Requirement | None = None
    audited: AuditEntrySpec | None = None
    begins: str = ""
    """Its `words`, where they are not those of its syntax."""

    @cached_property
    def words(self) -> str:
        """Those that it begins with, for messages: of CREATE and its kin also what they are about."""
        verb, *rest = re.sub(r" \[.*?\]", "", self.syntax).split() or [""]
        return self.begins or (f"{verb} {rest[0]}" if verb in _WITH_OBJECT else verb)

    @cached_property
    def kind(self) -> type[Statement]:
        """The class, which is what the handler takes."""
        _, kind, _ = get_type_hints(self.handler).values()
        return cast("type[Statement]", kind)

    @cached_property
    def result(self) -> Any:
        """The result's class, or a union of them, which is what the handler returns."""
        return get_type_hints(self.handler)["return"]


C = TypeVar("C", bound=SessionChoices)


def _never(_: Context, statement: Statement) -> Result:
    raise AssertionError(f"{type(statement).__name__} is not run: bind refuses it, or runs the statement inside")


class Statement:
    """A statement as it was parsed. What follows from its kind alone stands in its row; the methods say what follows from the
    statement at hand. `bind` asks them, and knows no kind of statement.
    """

    spec: ClassVar[StatementSpec] = StatementSpec("", "", READS, _never)
    """The row, which its family gives it."""
    effect: ClassVar[Effect] = "at once"
    checked_by_its_run: ClassVar[bool] = False
    """Whether its run has the engine check its query: then one message to a worker is enough, where nothing runs before it."""
    keeps_its_query: ClassVar[str] = ""
    """Why its query reads no temporary table, if that is so because it runs again in other sessions: the end of a sentence."""

    def recognized(self, tokens: Sequence[Token]) -> Statement:
        """The same, of whose text is kept what spares parsing the next one that differs in its literals alone, if it is such."""
        return self

    def queries(self) -> Iterator[exp.Expr]:
        """The parts that DuckDB computes, each as a query of its own."""
        return iter(())

    @property
    def looks_in(self) -> Ref | None:
        """The one table of a look-up, whose query is not needed to know what it reads."""
        return None

    @property
    def reads_own_table(self) -> bool:
        """Whether its result depends on the rows that its table has."""
        return False

    def check_complete(self, context: Context) -> None:
        """Raises:
        PermissionDenied, Unsupported, InvalidArgument, FailedPrecondition: it cannot be run, whatever its tables are.
        """

    def takes_temporary(self, name: TableName) -> bool:
        """Whether it is about the temporary table of this name, which needs no right: it is the session's own. False where the
        name means one of the warehouse all the same.

        Raises:
            InvalidArgument, Unsupported: temporary tables take no such statement.
        """
        raise Unsupported(
            f"{name} is a temporary table, which takes SELECT, INSERT (without ON CONFLICT, FILE and RETURNING), DESCRIBE and"
            " DROP TEMPORARY TABLE only"
        )

    def shadowing(self, context: Context) -> Names:
        """The names that mean temporary tables behind it."""
        return context.shadowing

    def choose(self, before: C) -> C:
        """What the session has chosen behind it."""
        return before

    def file_names(self) -> Iterator[str]:
        """The files that it takes, by their names in the text."""
        return iter(())

    def appends_to(self) -> Ref | None:
        """The table that it appends rows to within milliseconds; None of any other statement."""
        return None


@dataclass(frozen=True)
class OnTable(Statement):
    """A statement about one table."""

    table: Ref


class TableCreation(OnTable):
    """Makes a table of the warehouse: its name is that of one, whatever temporary tables the session has."""

    def takes_temporary(self, name: TableName) -> bool:
        return False

    def chooses_place(self, context: Context) -> bool:
        """Whether the table says by itself where its files are."""
        return False


class ListStatement(Statement):
    """Shows what exists."""

    effect: ClassVar[Effect] = "lists"


class SessionStatement(Statement):
    """Changes what the session alone has."""

    effect: ClassVar[Effect] = "session"


@dataclass(frozen=True)
class OnScopes(OnTable):
    """An operation on the session's own scope of a table, or on every scope."""

    all_users: bool = field(default=False, kw_only=True)
    dry_run: bool = field(default=False, kw_only=True)


@dataclass(frozen=True)
class ExecuteAs(Statement):
    user: str
    statement: Statement

    def shadowing(self, context: Context) -> Names:
        return self.statement.shadowing(context)

    def file_names(self) -> Iterator[str]:
        return self.statement.file_names()


@dataclass(frozen=True)
class UnsupportedStatement(Statement):
    """Recognized and not supported: backups, export and import of tables, and KalamDB features out of scope."""

    what: str

    def check_complete(self, context: Context) -> None:
        if "DATABASE" in self.what:
            context.door.allow("back up the database")
        raise Unsupported(f"{self.what}: recognized, but not supported")


@dataclass(frozen=True)
class Forbidden(Statement):
    """Reaches outside the session's tables, as COPY and SET do: forbidden in every role."""

    what: str

    def check_complete(self, context: Context) -> None:
        with context.door.watched(self.what):
            raise PermissionDenied(
                f"{self.what} is not available in SQL: a statement can use the session's tables and nothing else"
            )


def registered(*rows: StatementSpec) -> tuple[StatementSpec, ...]:
    """The rows of a family, each of which its class has from now on."""
    for row in rows:
        row.kind.spec = row
    return rows


def computed(*expressions: exp.Expr | None) -> Iterator[exp.Expr]:
    """A query of what DuckDB computes beside a statement's queries."""
    values = [each.copy() for each in expressions if each is not None]
    if values:
        yield exp.select(*values, copy=False)


# What a statement means for the block around it, and for whoever sends it.
def innermost(statement: Statement) -> Statement:
    return innermost(statement.statement) if isinstance(statement, ExecuteAs) else statement


def changes_nothing(statement: Statement) -> bool:
    """Whether it leaves the warehouse as it is."""
    return innermost(statement).effect not in ("rows", "at once")


def gives_rows(statement: Statement) -> bool:
    """Whether the statement answers with rows, and changes nothing."""
    inner = innermost(statement)
    return inner.spec.result is ResultRows or bool(getattr(inner, "dry_run", False))
