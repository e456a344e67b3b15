"""Statements about users."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lakewarden.sql.statements.base import Statement


@dataclass(frozen=True)
class CreateUser(Statement):
    """One way to log in: a password, `oauth` with its JSON, or `internal`."""

    name: str
    auth: Literal["password", "oauth", "internal"]
    secret: str
    role: str
    email: str | None = None
    storage_mode: str | None = None
    storage_id: str | None = None

    def __repr__(self) -> str:
        return f"CreateUser(name={self.name!r}, auth={self.auth!r}, role={self.role!r})"  # no secret in a trace


@dataclass(frozen=True)
class AlterUser(Statement):
    """Sets one field; `value` is None for NULL."""

    name: str
    field: Literal["password", "role", "email", "storage_mode", "storage_id"]
    value: str | None

    def __repr__(self) -> str:
        return f"AlterUser(name={self.name!r}, field={self.field!r})"  # no secret in a trace


@dataclass(frozen=True)
class DropUser(Statement):
    name: str
    if_exists: bool = False
