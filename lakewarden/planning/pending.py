"""Which scopes have rows in the write log, and which are due for a flush."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from lakewarden.catalog.model import Catalog, FlushPolicy, Table
from lakewarden.log.view import LogView
from lakewarden.scope import Scope, TableName
from lakewarden.warehouse import Warehouse, cold_tables


@dataclass(frozen=True)
class Pending:
    """A scope's hot rows: acknowledged, and not yet in its Delta table. `bytes` as stored in the log."""

    table: TableName
    user: str | None
    rows: int
    bytes: int
    oldest: datetime

    @property
    def scope(self) -> Scope:
        return Scope(self.table, self.user)


@dataclass(frozen=True)
class Due:
    """A scope that its policy says to flush now, and why."""

    pending: Pending
    reason: str


def pending_in(warehouse: Warehouse) -> list[Pending]:
    """Every scope with hot rows, oldest first; a table whose log is corrupt has none."""
    views = warehouse.logs.views().sound
    return pending_scopes(cold_tables(warehouse.catalog.read()), views)


def pending_scopes(tables: Iterable[Table], views: Mapping[str, LogView]) -> list[Pending]:
    """Every scope with hot rows, oldest first. `views` by log partition id."""
    found = [
        Pending(table.name, rows.user or None, rows.rows, rows.bytes, rows.oldest)
        for table in tables
        if (view := views.get(table.log_id))
        for rows in view.pending.values()
    ]
    return sorted(found, key=lambda pending: (pending.oldest, str(pending.scope)))


def due_scopes(catalog: Catalog, pending: Iterable[Pending], now: datetime) -> Iterator[Due]:
    """The scopes that meet either half of their table's FLUSH_POLICY; tables without one are flushed by hand only.

    The row threshold is a scope's own (kalamdb.md 5.b); the interval counts from its oldest pending row.
    """
    for one in pending:
        policy = catalog.tables[one.table].options.flush_policy
        if policy and (reason := _met(policy, one, now)):
            yield Due(one, reason)


def _met(policy: FlushPolicy, pending: Pending, now: datetime) -> str | None:
    if policy.rows is not None and pending.rows >= policy.rows:
        return f"{pending.rows} pending rows of rows:{policy.rows}"
    age = (now - pending.oldest).total_seconds()
    if policy.interval is not None and age >= policy.interval:
        return f"oldest row {age:.0f} s old of interval:{policy.interval}"
    return None
