"""The door to a scope's Delta table for whoever has its target."""

from __future__ import annotations

from lakewarden.delta.table import ScopeTable
from lakewarden.report import ScopeTarget


def open_scope(target: ScopeTarget, version: int | None = None) -> ScopeTable | None:
    """The newest version of the scope's table, or that one; None where there is no table. Raises as `ScopeTable.open`."""
    return ScopeTable.open(target.location, version)
