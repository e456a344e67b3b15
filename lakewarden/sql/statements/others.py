"""Statements around another one, and those that are not run."""

from __future__ import annotations

from dataclasses import dataclass

from lakewarden.sql.statements.base import Statement


@dataclass(frozen=True)
class ExecuteAs(Statement):
    user: str
    statement: Statement


@dataclass(frozen=True)
class UnsupportedStatement(Statement):
    """Recognized and not supported: backups, export and import of tables, and KalamDB features out of scope."""

    what: str


@dataclass(frozen=True)
class Forbidden(Statement):
    """Reaches outside the session's tables, as COPY and SET do: forbidden in every role."""

    what: str


@dataclass(frozen=True)
class PlacedStatement:
    """A statement, and where it begins in the text: line and column count from 1."""

    statement: Statement
    line: int
    column: int
