"""Which scopes have rows in the write log, and which are due for a flush."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, overload

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakewarden.base.arrays import numbers, texts
from lakewarden.base.clock import CLOCKS_DIFFER, from_micros, is_ahead, to_micros
from lakewarden.base.quantities import lasting
from lakewarden.base.scope import Scope, TableName
from lakewarden.catalog.model import Catalog, FlushPolicy, Table
from lakewarden.catalog.report import ScopeReport
from lakewarden.log.objects.log_view import LogView
from lakewarden.tables.warehouse import Warehouse, cold_tables


@dataclass(frozen=True, slots=True)
class ScopeBacklog:
    """A scope's hot rows: acknowledged, and not yet in its Delta table. `bytes` as stored in the log."""

    table: TableName
    user: str | None
    rows: int
    bytes: int
    oldest: datetime

    @property
    def scope(self) -> Scope:
        return Scope(self.table, self.user)

    def age(self, now: datetime) -> float:
        """The seconds for which its oldest row waits; 0 where that is dated ahead."""
        return max(0.0, (now - self.oldest).total_seconds())


@dataclass(frozen=True)
class PendingScopes(Sequence[ScopeBacklog]):
    """Scopes with hot rows, in columns: a `ScopeBacklog` is made when it is taken out. Equal to a list of the same."""

    tables: tuple[Table, ...]
    which: NDArray[np.int64]
    """For each scope, the index of its table."""
    users: pa.Array[Any]
    """Empty names for SHARED tables."""
    rows: NDArray[np.int64]
    bytes: NDArray[np.int64]
    oldest: NDArray[np.int64]
    """Microseconds since the epoch."""

    @classmethod
    def of(cls, tables: Iterable[Table], views: Mapping[str, LogView]) -> PendingScopes:
        """Every scope with hot rows, oldest first. `views` by log id."""
        found = [
            (table, views[table.log_id].counts)
            for table in sorted(tables, key=lambda table: str(table.name))
            if table.log_id in views
        ]
        lengths = [len(counts.rows) for _, counts in found]
        users = pa.concat_arrays([texts(()), *(counts.users for _, counts in found)])
        columns = [
            np.repeat(np.arange(len(found)), lengths),
            *(_joined([getattr(counts, name) for _, counts in found]) for name in ("rows", "bytes", "oldest")),
        ]
        scopes = cls(tuple(table for table, _ in found), columns[0], users, *columns[1:])
        oldest = scopes.oldest
        return scopes if bool(np.all(oldest[1:] >= oldest[:-1])) else scopes.taken(np.argsort(oldest, kind="stable"))

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[ScopeBacklog]:
        columns = (each.tolist() for each in (self.which, self.rows, self.bytes, self.oldest))
        for user, which, rows, size, oldest in zip(self.users.to_pylist(), *columns, strict=True):
            yield ScopeBacklog(self.tables[which].name, user or None, rows, size, from_micros(oldest))

    @overload
    def __getitem__(self, index: int) -> ScopeBacklog: ...
    @overload
    def __getitem__(self, index: slice) -> PendingScopes: ...
    def __getitem__(self, index: int | slice) -> ScopeBacklog | PendingScopes:
        if isinstance(index, slice):
            return self.taken(np.arange(len(self))[index])
        return next(iter(self.taken(np.array([range(len(self))[index]]))))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or len(self) != len(other):
            return False
        return all(one == another for one, another in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(list(self))

    def taken(self, at: NDArray[np.int64]) -> PendingScopes:
        """The scopes at these indices."""
        users = self.users.take(numbers(at))
        return PendingScopes(self.tables, self.which[at], users, self.rows[at], self.bytes[at], self.oldest[at])

    def of_table(self, table: Table) -> PendingScopes:
        """Those of one table."""
        return self.taken(np.flatnonzero(self.which == self.tables.index(table) if table in self.tables else ()))

    def due(self, now: datetime) -> PendingScopes:
        """The scopes that meet either half of their table's FLUSH_POLICY."""
        policies = [table.options.flush_policy or FlushPolicy(None, None) for table in self.tables]
        rows = np.array([_NEVER if one.rows is None else one.rows for one in policies], np.int64)
        ages = np.array([_NEVER if one.interval is None else one.interval * 1_000_000 for one in policies], np.int64)
        if not policies:
            return self
        waited = to_micros(now) - self.oldest
        # How long a row waits that a wrong clock dated is not known, and it may not wait until that time comes.
        waited = np.where(waited < -(CLOCKS_DIFFER // timedelta(microseconds=1)), _NEVER - 1, waited)
        met = (self.rows >= rows[self.which]) | (waited >= ages[self.which])
        return self.taken(np.flatnonzero(met))


_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class DueScope:
    """A scope that its policy says to flush now, and why."""

    pending: ScopeBacklog
    reason: str

    def planned(self, warehouse: Warehouse, catalog: Catalog) -> ScopeReport:
        """The flush that its policy calls for."""
        metrics = {"rows_pending": self.pending.rows, "bytes_pending": self.pending.bytes}
        place = warehouse.target(catalog, self.pending.scope).location
        return ScopeReport(self.pending.scope, "flush", "planned", place, reason=self.reason, metrics=metrics)


def pending_in(warehouse: Warehouse) -> PendingScopes:
    """Every scope with hot rows, oldest first; a table whose log is corrupt has none."""
    views = warehouse.logs.views().sound
    return PendingScopes.of(cold_tables(warehouse.catalog.read()), views)


def why_pending(policy: FlushPolicy | None, pending: ScopeBacklog, now: datetime) -> str:
    """Why the scope has hot rows now."""
    if policy is None:
        return "the table has no FLUSH_POLICY: it is flushed by hand"
    return _met(policy, pending, now) or f"waits for its policy {policy}"


def due_scopes(catalog: Catalog, pending: PendingScopes, now: datetime) -> Iterator[DueScope]:
    """The scopes that meet either half of their table's FLUSH_POLICY; tables without one are flushed by hand only.

    The row threshold is a scope's own (kalamdb.md 5.b); the interval counts from its oldest pending row.
    """
    for one in pending.due(now):
        policy = catalog.tables[one.table].options.flush_policy
        if policy and (reason := _met(policy, one, now)):
            yield DueScope(one, reason)


def _met(policy: FlushPolicy, pending: ScopeBacklog, now: datetime) -> str | None:
    if policy.rows is not None and pending.rows >= policy.rows:
        return f"{pending.rows} pending rows of rows:{policy.rows}"
    if policy.interval is None:
        return None
    if is_ahead(pending.oldest, now):
        return f"oldest row dated ahead, {pending.oldest:%Y-%m-%d %H:%M} UTC, so of unknown age of interval:{policy.interval}"
    if (age := pending.age(now)) >= policy.interval:
        return f"oldest row {lasting(age)} old of interval:{policy.interval}"
    return None


def _joined(parts: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate([np.empty(0, np.int64), *parts])
