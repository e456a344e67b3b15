"""The health of each table in numbers, with the scopes that are worst and why: from the log and the state, opening none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain

import numpy as np

from lakewarden.catalog.model import Table
from lakewarden.planning.broken import BrokenScopes
from lakewarden.planning.overview import Overview, TableStatus, overview
from lakewarden.planning.pending import PendingScopes
from lakewarden.scope import Scope, TableName
from lakewarden.warehouse import Warehouse, cold_tables

WORST = 20

LATE_AFTER = timedelta(minutes=5)
"""How long rows may wait beyond the interval of FLUSH_POLICY: a flush has to be started, and others come before it."""


@dataclass(frozen=True)
class WorstScope:
    """A scope that needs attention, and why."""

    scope: Scope
    reason: str
    is_pending: bool = False
    is_late: bool = False
    failed_check: str = ""


@dataclass(frozen=True)
class TableHealth:
    """One table: its numbers, how many scopes are late or broken, and the worst of them."""

    table: TableName
    interval: int
    """Seconds, of FLUSH_POLICY; 0 without one."""
    status: TableStatus
    late_scopes: int
    """Scopes with rows that wait too long."""
    failed_scopes: int
    """Scopes that a check or an operation found broken."""
    worst: tuple[WorstScope, ...]
    """Late ones first, the longest waiting of them first; then broken ones; then those with most rows in the log;
    then those with most files."""

    @property
    def is_late(self) -> bool:
        return self.late_scopes > 0


def health(warehouse: Warehouse, names: Iterable[TableName] | None = None, files_of: int = 0) -> list[TableHealth]:
    """The health of these tables, of all without names, in the order of the catalog; STREAM tables have none.

    Args:
        files_of: the number of scopes in all tables that are looked at for their files, where fewer have pending rows.
    """
    tables = cold_tables(warehouse.catalog.read())
    found = overview(warehouse, files_of)
    views, now = warehouse.logs.views(), warehouse.clock()
    by_name = {TableName.parse(one.table): (one, broken) for one, broken in zip(found.tables, found.broken, strict=True)}
    wanted = by_name.keys() if names is None else by_name.keys() & set(names)
    return [
        _health(table, *by_name[table.name], PendingScopes.of([table], views.sound), _with_files(found, table), now)
        for table in tables
        if table.name in wanted
    ]


def _with_files(found: Overview, table: Table) -> list[WorstScope]:
    of_table = (one for one in found.scopes if one.table == str(table.name) and one.pending_rows == 0 and one.code is None)
    return [WorstScope(Scope(table.name, one.user), f"{one.reason}: {one.files} files") for one in of_table]


def _health(
    table: Table,
    status: TableStatus,
    failed: BrokenScopes,
    pending: PendingScopes,
    with_files: Sequence[WorstScope],
    now: datetime,
) -> TableHealth:
    late = late_scopes(table, pending, now)
    ranked = chain(_ranked(table, pending, late, failed, now), with_files)
    return TableHealth(table.name, interval_of(table), status, len(late), len(failed), tuple(_first(ranked)))


def interval_of(table: Table) -> int:
    """The seconds of FLUSH_POLICY's interval; 0 without one."""
    policy = table.options.flush_policy
    return policy.interval if policy and policy.interval else 0


def late_scopes(table: Table, pending: PendingScopes, now: datetime) -> PendingScopes:
    """The scopes whose oldest row waits for longer than the interval of FLUSH_POLICY and `LATE_AFTER`; oldest first."""
    interval = interval_of(table)
    if not interval:
        return pending[:0]
    late = now - timedelta(seconds=interval) - LATE_AFTER
    count = next((at for at, one in enumerate(pending) if one.oldest > late), len(pending))
    return pending[:count]


def _first(ranked: Iterable[WorstScope]) -> Iterator[WorstScope]:
    """The first `WORST`, each once."""
    seen: set[Scope] = set()
    for one in ranked:
        if one.scope not in seen and len(seen) < WORST:
            seen.add(one.scope)
            yield one


def _ranked(
    table: Table, pending: PendingScopes, late: PendingScopes, failed: BrokenScopes, now: datetime
) -> Iterator[WorstScope]:
    interval, checks = interval_of(table), {scope: failure.check for scope, failure in failed.failed}
    for one in late[:WORST]:
        waits = (now - one.oldest).total_seconds()
        yield WorstScope(
            one.scope, f"late: rows wait for {waits:,.0f} s of interval:{interval}", True, True, checks.get(one.scope, "")
        )
    for broken in failed.first(WORST):
        yield WorstScope(broken.scope, broken.reason, failed_check=broken.check)
    most = np.argsort(-pending.rows, kind="stable")[: 2 * WORST]
    for one in pending.taken(most):
        yield WorstScope(one.scope, f"{one.rows:,} rows in the log", is_pending=True)
