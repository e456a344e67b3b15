"""Statements about storages."""

from __future__ import annotations

from dataclasses import dataclass, field

from lakewarden.sql.statements.base import Statement


@dataclass(frozen=True)
class CreateStorage(Statement):
    id: str
    type: str
    base: str = ""
    bucket: str = ""
    name: str = ""
    description: str = ""
    shared_template: str = ""
    user_template: str = ""
    region: str = ""
    credentials: str = field(default="", repr=False)
    """A reference to a credential. Never shown: it may hold a misplaced secret."""
    config: str = field(default="", repr=False)
    """A JSON object."""


@dataclass(frozen=True)
class AlterStorage(Statement):
    """A field that is None stays unchanged."""

    id: str
    name: str | None = None
    description: str | None = None
    shared_template: str | None = None
    user_template: str | None = None
    region: str | None = None
    credentials: str | None = field(default=None, repr=False)
    config: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class DropStorage(Statement):
    id: str
    if_exists: bool = False


@dataclass(frozen=True)
class CheckStorage(Statement):
    id: str
    extended: bool = False
