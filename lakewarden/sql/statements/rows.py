"""Statements that read and change rows."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from lakewarden.sql.statements.base import OnTable, Pairs, Statement


@dataclass(frozen=True)
class Assignment:
    column: str
    value: exp.Expr


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
class Update(OnTable):
    assignments: tuple[Assignment, ...]
    where: exp.Expr
    alias: str | None = None


@dataclass(frozen=True)
class Delete(OnTable):
    where: exp.Expr
    alias: str | None = None


@dataclass(frozen=True)
class Query(Statement):
    query: exp.Query


@dataclass(frozen=True)
class Explain(Statement):
    query: exp.Query


@dataclass(frozen=True)
class Subscribe(Statement):
    query: exp.Query
    options: Pairs = ()
