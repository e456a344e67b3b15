"""The part of every operation's form that says which scopes it is for."""

from __future__ import annotations

import dagster as dg
from pydantic import Field


class ScopeSelection(dg.Config):
    """Which scopes. Left as it is: every scope of the warehouse."""

    tables: list[str] = Field([], description="Tables as namespace.table; none means all of the warehouse.")
    user: str | None = Field(None, description="Only this user's scope of each of the tables.")
