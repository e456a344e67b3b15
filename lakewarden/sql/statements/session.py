"""Statements of a session: how it reads, what it creates, its blocks, and those that show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lakewarden.sql.statements.base import OnTable, Statement
from lakewarden.tables.freshness import Freshness


@dataclass(frozen=True)
class SetFreshness(Statement):
    freshness: Freshness


@dataclass(frozen=True)
class SetMetadata(Statement):
    """`metadata` as `metadata_text` returns it; empty where there is to be none."""

    metadata: str


@dataclass(frozen=True)
class ShowMetadata(Statement):
    pass


@dataclass(frozen=True)
class SetTableStorage(Statement):
    """`key` is without the prefix `table-storage.`."""

    key: str
    value: str


# Statements that begin and end a transaction block.
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


# Statements that show what exists.
@dataclass(frozen=True)
class Show(Statement):
    what: Literal["namespaces", "storages", "manifest", "export"]


@dataclass(frozen=True)
class ShowTables(Statement):
    namespace: str | None = None


@dataclass(frozen=True)
class ShowStats(OnTable):
    """The rows and files of the session's own scope."""


@dataclass(frozen=True)
class Describe(OnTable):
    """`versions`: every version of the columns instead of the newest."""

    versions: bool = False


@dataclass(frozen=True)
class DescribeHistory(OnTable):
    limit: int | None = None
