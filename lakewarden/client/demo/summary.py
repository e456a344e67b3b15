"""Reads the final state of the demo's tables from the tables themselves, not from counts of earlier steps."""

from __future__ import annotations

from dataclasses import dataclass

from lakewarden.base.scope import Scope, TableName
from lakewarden.base.threads import at_once
from lakewarden.catalog.report import ScopeState
from lakewarden.client import Lakehouse
from lakewarden.delta.scope import open_scope


@dataclass(frozen=True)
class TableSummary:
    """All scopes of one table. `bytes` are those of the live data files."""

    table: str
    scopes: int
    rows: int
    files: int
    bytes: int


def summarize(lake: Lakehouse, name: TableName, shared: bool) -> TableSummary:
    """Opens every scope's Delta table."""
    users: list[str | None] = [None] if shared else list(lake.table(str(name)).users())
    catalog = lake.warehouse.catalog.read()

    def look(user: str | None) -> ScopeState | None:
        target = lake.warehouse.target(catalog, Scope(name, user))
        table = open_scope(target)
        return table.state(target.app_id) if table else None

    states = [state for state in at_once(look, users) if state]
    return TableSummary(
        table=str(name),
        scopes=len(states),
        rows=sum(state.rows for state in states),
        files=sum(state.files for state in states),
        bytes=sum(state.bytes for state in states),
    )
