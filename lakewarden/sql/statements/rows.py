"""Statements that read and change rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sqlglot import exp

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
class Insert(OnTable):
    """`columns` is empty where the text names none, which means all, in order. `rows` has NULL in place of `files`."""

    columns: tuple[str, ...]
    rows: exp.Query | None
    """None for DEFAULT VALUES."""
    conflict: OnConflict | None = None
    alias: str | None = None
    files: tuple[FileValue, ...] = ()


@dataclass(frozen=True)
class Overwrite(OnTable):
    """INSERT OVERWRITE; `columns` and `rows` as of Insert. The rows have no value for the columns of `partition`."""

    columns: tuple[str, ...]
    rows: exp.Query
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
class Query(Statement):
    query: exp.Query


@dataclass(frozen=True)
class Explain(Statement):
    query: exp.Query


LARGEST = 2**63 - 1
"""Of the numbers of a subscription."""


@dataclass(frozen=True)
class Subscribe(Statement):
    query: exp.Query
    options: Pairs = ()
