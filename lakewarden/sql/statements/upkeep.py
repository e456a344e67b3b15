"""Statements that start operations, and those about jobs, plans and exports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lakewarden.sql.statements.base import OnScopes, OnTable, Pairs, Ref, Statement


@dataclass(frozen=True)
class StorageJob(Statement):
    """STORAGE FLUSH and STORAGE COMPACT of one table, or of all in a namespace (the session's where none is named)."""

    operation: Literal["flush", "compact"]
    table: Ref | None = None
    namespace: str | None = None
    look: bool = False
    """Of a compaction: opens each scope."""
    dry_run: bool = False
    ratio: float | None = None
    """Of a compaction: leaves a file with more than so many times the rows of the newer ones together."""
    more: Pairs = ()
    """Of WITH: options of the operation, by their names there."""


@dataclass(frozen=True)
class MoveTable(OnTable):
    """STORAGE MOVE TABLE; `storage` is None for CANCEL."""

    storage: str | None
    dry_run: bool = False


@dataclass(frozen=True)
class Optimize(OnScopes):
    zorder: tuple[str, ...] = ()
    look: bool = False
    """Opens each scope, also those in which nothing is to do by what the state knows."""
    where: str | None = None
    """A condition on partition columns, as written."""
    more: Pairs = ()
    """As in `StorageJob`; so below."""


@dataclass(frozen=True)
class Vacuum(OnScopes):
    retain_hours: float | None = None
    force: bool = False
    look: bool = False
    """As in `Optimize`."""
    more: Pairs = ()


@dataclass(frozen=True)
class Restore(OnScopes):
    """Exactly one of `version` and `timestamp`; the latter as written."""

    version: int | None = None
    timestamp: str | None = None
    more: Pairs = ()


@dataclass(frozen=True)
class ApplyPlan(Statement):
    id: str


@dataclass(frozen=True)
class KillJob(Statement):
    id: str


@dataclass(frozen=True)
class KillLiveQuery(Statement):
    id: str


@dataclass(frozen=True)
class ExportUserData(Statement):
    """Of the session's own user."""
