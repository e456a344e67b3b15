"""Statements about namespaces."""

from __future__ import annotations

from dataclasses import dataclass

from lakewarden.sql.statements.base import Statement


@dataclass(frozen=True)
class CreateNamespace(Statement):
    name: str
    if_not_exists: bool = False


@dataclass(frozen=True)
class DropNamespace(Statement):
    name: str
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True)
class AlterNamespace(Statement):
    name: str
    description: str


@dataclass(frozen=True)
class UseNamespace(Statement):
    name: str


@dataclass(frozen=True)
class EnableEngine(Statement):
    name: str
    settings: str | None = None
    """None leaves those that the engine has."""


@dataclass(frozen=True)
class DisableEngine(Statement):
    name: str


@dataclass(frozen=True)
class ShowEngines(Statement):
    """Lists the engines of all namespaces."""
