"""Statements about the whole warehouse."""

from __future__ import annotations

from dataclasses import dataclass

from lakewarden.sql.statements.base import Pairs, Statement


@dataclass(frozen=True)
class AlterWarehouse(Statement):
    """Changes settings."""

    settings: Pairs


@dataclass(frozen=True)
class ShowSettings(Statement):
    """Lists them."""
