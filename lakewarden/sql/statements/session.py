"""Statements that choose how a session reads, and what it creates."""

from __future__ import annotations

from dataclasses import dataclass

from lakewarden.sql.statements.base import Statement
from lakewarden.tables.reading.freshness import Freshness


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
