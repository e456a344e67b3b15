"""Statements that show what exists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lakewarden.sql.statements.base import OnTable, Statement


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
