"""Statements that read and change rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from sqlglot import exp

from lakewarden.sql.plain_values import cells_of, is_plain, values_of
from lakewarden.sql.statements.base import OnTable, Pairs, Ref, Statement
from lakewarden.sql.statements.definitions import PartitionSpec


@dataclass(frozen=True)
class Assignment:
    column: str
    value: exp.Expr
    of: Ref | None = None
    """The table that the column is said to be of, where the text names one."""


@dataclass(frozen=True)
class OnConflict:
    """`assignments` is None for DO NOTHING; `columns` is empty where the text names none."""

    columns: tuple[str, ...]
    assignments: tuple[Assignment, ...] | None
    where: exp.Expr | None = None


@dataclass(frozen=True)
class FileValue:
    """`FILE('name')` as the value of a row of VALUES, counted from 0, at a place in it."""

    row: int
    place: int
    name: str


@dataclass(frozen=True)
class RowSource:
    """`columns` is empty where the text names none, which means all, in order. `rows` is None for DEFAULT VALUES."""

    columns: tuple[str, ...]
    rows: exp.Query | None

    @cached_property
    def values(self) -> exp.Values | None:
        """The VALUES that the rows are; None of a query. Recognized once: each step of an INSERT depends on it."""
        return None if self.rows is None else values_of(self.rows)

    @cached_property
    def is_plain(self) -> bool:
        """Whether it is of VALUES that have no name and no function to check, so that DuckDB computes nothing."""
        values = self.values
        return values is not None and all(is_plain(cell) for row in values.expressions for cell in cells_of(row))


@dataclass(frozen=True)
class Insert(RowSource, OnTable):
    """`rows` has NULL in place of `files`."""

    conflict: OnConflict | None = None
    alias: str | None = None
    files: tuple[FileValue, ...] = ()


@dataclass(frozen=True)
class Overwrite(RowSource, OnTable):
    """INSERT OVERWRITE. The rows have no value for the columns of `partition`."""

    partition: PartitionSpec = ()


@dataclass(frozen=True)
class Update(OnTable):
    """`where` is None where the text has none, which only K3's rules allow."""

    assignments: tuple[Assignment, ...]
    where: exp.Expr | None
    alias: str | None = None


@dataclass(frozen=True)
class Delete(OnTable):
    """`where` as of Update."""

    where: exp.Expr | None
    alias: str | None = None


@dataclass(frozen=True)
class Truncate(OnTable):
    """Removes every row."""


@dataclass(frozen=True)
class When:
    """One WHEN of a MERGE. `columns` get `values`; both are empty for `*`, and for an action that sets nothing."""

    matched: bool
    condition: exp.Expr | None
    action: Literal["update", "delete", "insert", "nothing"]
    columns: tuple[str, ...] = ()
    values: tuple[exp.Expr, ...] = ()
    of: tuple[Ref | None, ...] = ()
    """The table that each column is said to be of, as of Assignment."""


@dataclass(frozen=True)
class Merge(OnTable):
    """`source` is sqlglot's node of VALUES, of a query in brackets or of a table; `source_alias` is what ON calls it."""

    source: exp.Expr
    source_alias: str
    on: exp.Expr
    whens: tuple[When, ...]
    alias: str | None = None


@dataclass(frozen=True)
class Constant:
    """A literal of a look-up. Its value is not part of it: `place` counts among the literals of the text."""

    place: int
    is_string: bool
    negative: bool = False


@dataclass(frozen=True)
class ShownItem:
    """What a look-up shows: a column by its name as written, a literal, or all columns; and the name that the text gives it."""

    what: str | Constant | None
    alias: str | None = None


@dataclass(frozen=True)
class LookUpShape:
    """`SELECT columns FROM table WHERE column = literal AND …` without its values: names alone, so that it may be kept."""

    table: Ref
    alias: str
    """By which columns may be qualified."""
    shown: tuple[ShownItem, ...]
    key: tuple[tuple[str, Constant], ...]
    """The columns that are compared, as written: whether they are the key is for the table at hand."""


@dataclass(frozen=True)
class LookUp:
    """A query of one row by its key, with the literals of its text in order."""

    shape: LookUpShape
    literals: tuple[str, ...]

    def text(self, constant: Constant) -> str:
        return f"-{self.literals[constant.place]}" if constant.negative else self.literals[constant.place]


@dataclass(frozen=True)
class Query(Statement):
    parsed: Callable[[], exp.Query] = field(repr=False)
    """A look-up that is answered without the engine never needs its tree."""
    look_up: LookUp | None = None

    __match_args__ = ("query",)

    @classmethod
    def of(cls, query: exp.Query) -> Query:
        return cls(lambda: query)

    @cached_property
    def query(self) -> exp.Query:
        return self.parsed()


@dataclass(frozen=True)
class Explain(Statement):
    query: exp.Query


LARGEST = 2**63 - 1
"""Of the numbers of a subscription."""


@dataclass(frozen=True)
class Subscribe(Statement):
    query: exp.Query
    options: Pairs = ()
