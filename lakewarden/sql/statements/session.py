"""Statements that choose how a session reads."""

from __future__ import annotations

from dataclasses import dataclass

from lakewarden.operations.reading.freshness import Freshness
from lakewarden.sql.statements.base import Statement


@dataclass(frozen=True)
class SetFreshness(Statement):
    freshness: Freshness
