"""Statements that begin and end a transaction block."""

from __future__ import annotations

from dataclasses import dataclass

from lakewarden.sql.statements.base import Statement


@dataclass(frozen=True)
class Begin(Statement):
    read_only: bool = False


@dataclass(frozen=True)
class Commit(Statement):
    pass


@dataclass(frozen=True)
class Rollback(Statement):
    """Of the whole block, or of what came behind a savepoint."""

    savepoint: str | None = None


@dataclass(frozen=True)
class Savepoint(Statement):
    name: str


@dataclass(frozen=True)
class ReleaseSavepoint(Statement):
    name: str


BlockStatement = Begin | Commit | Rollback | Savepoint | ReleaseSavepoint
