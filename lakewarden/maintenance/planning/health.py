"""The health of each table in numbers, with the scopes that are worst and why: from the log and the state, opening none."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from itertools import groupby
from typing import Literal

import numpy as np

from lakewarden.base.quantities import grouped, lasting, number_of
from lakewarden.base.scope import Scope, TableName
from lakewarden.catalog.model import Table
from lakewarden.catalog.state.failed_checks import StandingFailure
from lakewarden.errors import Corrupt, LakewardenError
from lakewarden.maintenance.planning.overview import Overview, TableStatus, overview
from lakewarden.maintenance.planning.pending import PendingScopes
from lakewarden.maintenance.planning.status import BrokenScopes, ScopeStatus, command_for, is_broken, kind_of
from lakewarden.tables.presence import Presence
from lakewarden.tables.warehouse import Warehouse, cold_tables

EXAMPLES = 3
"""Scopes that a reason names."""

_CAUSES, _REASONS = 100, 5
"""Scopes whose failure of a check is read, and reasons of it that have a line of their own."""

LATE_AFTER = timedelta(minutes=5)
"""How long rows may wait beyond the interval of FLUSH_POLICY: a flush has to be started, and others come before it."""


Severity = Literal["away", "broken", "failed check", "late", "waiting", "many files"]
"""The worst first."""


@dataclass(frozen=True)
class Trouble:
    """Why scopes of a table need attention: one reason, how many scopes have it, and the worst of them."""

    severity: Severity
    reason: str
    count: int
    examples: tuple[Scope, ...]
    code: str = ""
    """The error code of what is broken."""
    command: str = ""
    """What mends the first example, or shows how."""


@dataclass(frozen=True)
class TableHealth:
    """One table: its numbers, how many scopes are late or broken, and the worst of them."""

    table: TableName
    interval: int
    """Seconds, of FLUSH_POLICY; 0 without one."""
    status: TableStatus
    late_scopes: int
    """Scopes with rows that wait too long."""
    broken_scopes: int
    """Scopes that cannot be read, or on which an operation failed for good."""
    failed_scopes: int
    """Scopes whose rows or columns failed a check."""
    away_scopes: int
    """All of the table's, where its storage is away."""
    worst: tuple[Trouble, ...]
    """A line a reason, the most severe first. The examples of late scopes are those that wait longest; of those with rows in the
    log, or with files, those that have most."""

    @property
    def is_late(self) -> bool:
        return self.late_scopes > 0


def health(warehouse: Warehouse, names: Iterable[TableName] | None = None, files_of: int = 0) -> list[TableHealth]:
    """The health of these tables, of all without names, in the order of the catalog; STREAM tables have none.

    Args:
        files_of: the number of scopes in all tables that are looked at for their files, where fewer have pending rows.
    """
    return health_of(warehouse, overview(warehouse, files_of), names)


def health_of(warehouse: Warehouse, found: Overview, names: Iterable[TableName] | None = None) -> list[TableHealth]:
    """The same of an overview that was just made."""
    catalog = warehouse.catalog.read()
    known = {broken.table.name for broken in found.broken}
    tables = [table for table in cold_tables(catalog) if table.name in known]
    views, now = warehouse.logs.views(), warehouse.clock()
    by_name = {TableName.parse(one.table): (one, broken) for one, broken in zip(found.tables, found.broken, strict=True)}
    wanted = by_name.keys() if names is None else by_name.keys() & set(names)
    storages = {table.options.storage_id for table in tables if table.name in wanted}
    present = Presence.among(warehouse.root(catalog.storages[id_]) for id_ in storages)
    away = {root.storage_id: error for root, error in present.away.items()}
    return [
        _health(
            found,
            table,
            *by_name[table.name],
            PendingScopes.of([table], views.sound),
            away.get(table.options.storage_id),
            now,
        )
        for table in tables
        if table.name in wanted
    ]


def _with_files(found: Overview, table: Table) -> list[Trouble]:
    """The scopes that maintenance has work in, by its reason."""
    of_table = [one for one in found.scopes if one.table == str(table.name) and one.pending_rows == 0 and one.code is None]
    by_reason = groupby(sorted(of_table, key=lambda one: one.reason), key=lambda one: one.reason)
    counts = found.reasons.get(str(table.name), {})
    return [_of_files(table, reason, list(scopes), counts.get(reason, 0)) for reason, scopes in by_reason]


def _opened(found: Overview, table: Table, failed: BrokenScopes, error: str | None) -> list[Trouble]:
    """The scopes that were opened for this look, and are broken, which nothing had found before: a line a reason. `error`: what
    is said of the whole table."""
    known, target_of = {scope.user for scope, _ in failed.failed}, partial(failed.warehouse.bare_target, failed.catalog, table)
    own = (one for one in found.scopes if one.table == str(table.name) and one.user not in known)
    by_kind = grouped(
        (one for one in own if one.pending_rows and one.code),
        lambda one: (one.code, one.reason if one.reason == error else kind_of(one.reason, target_of(one.user))),
    )
    some = [(each[0], tuple(Scope(table.name, one.user) for one in each)) for each in by_kind.values()]
    return [Trouble("broken", one.reason, len(scopes), scopes, one.code or "", one.command or "") for one, scopes in some]


def _of_files(table: Table, reason: str, scopes: Sequence[ScopeStatus], count: int) -> Trouble:
    """`count`: of all that have the reason, of which `scopes` are listed."""
    most = sorted(scopes, key=lambda one: one.files or 0, reverse=True)
    examples = tuple(Scope(table.name, one.user) for one in most[:EXAMPLES])
    return Trouble("many files", f"{reason}: up to {number_of(most[0].files or 0, 'file')}", max(count, len(most)), examples)


def _health(
    found: Overview,
    table: Table,
    status: TableStatus,
    failed: BrokenScopes,
    pending: PendingScopes,
    away: LakewardenError | None,
    now: datetime,
) -> TableHealth:
    late, opened = late_scopes(table, pending, now), _opened(found, table, failed, status.error)
    broken, by_check = _by_reason(failed)
    broken += [replace(one, examples=one.examples[:EXAMPLES]) for one in opened if one.reason != status.error]
    known = {scope.user for scope, failure in failed.failed if is_broken(failure.check)}
    others = _without(pending[len(late) :], known.union(*({scope.user for scope in one.examples} for one in opened)))
    missing = [] if away is None else [_away(table, status, away)]
    troubles = (
        *missing,
        *_unread(table, status),
        *broken,
        *by_check,
        *_late(table, late, now),
        *_waiting(others),
        *_with_files(found, table),
    )
    counts = len(late), _count(broken), _count(by_check), _count(missing)
    return TableHealth(table.name, interval_of(table), status, *counts, troubles)


def _away(table: Table, status: TableStatus, error: LakewardenError) -> Trouble:
    command = f"lakewarden check {table.options.storage_id}"
    return Trouble("away", error.message, max(status.scopes, 1), (Scope(table.name),), error.code, command)


def _unread(table: Table, status: TableStatus) -> Iterator[Trouble]:
    """What keeps all of a table from being read: its log, or what the state knows of its scopes. No scope of it is counted as
    broken for that, as `TableStatus.error` says it of the table."""
    if status.error is not None:
        scope = Scope(table.name)
        command = command_for(scope, "log", Corrupt.code) + (" --restored" if "--restored" in status.error else "")
        yield Trouble("broken", status.error, max(status.scopes, 1), (scope,), Corrupt.code, command)


def _count(troubles: Iterable[Trouble]) -> int:
    return sum(one.count for one in troubles)


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


def _by_reason(failed: BrokenScopes) -> tuple[list[Trouble], list[Trouble]]:
    """What is broken, and what failed a check of rows or columns, the most frequent check first, and of each the most frequent
    reason. Reads the causes of `_CAUSES` scopes of each check."""
    by_check = grouped(failed.failed, lambda one: one[1].check)
    broken, others = list[Trouble](), list[Trouble]()
    for check, theirs in sorted(by_check.items(), key=lambda one: -len(one[1])):
        (broken if is_broken(check) else others).extend(_of_check(check, failed, theirs))
    return broken, others


def _of_check(check: str, failed: BrokenScopes, theirs: Sequence[tuple[Scope, StandingFailure]]) -> Iterator[Trouble]:
    """A line for each of the most frequent reasons, and one for all others, so that each scope counts once."""
    severity: Severity = "broken" if is_broken(check) else "failed check"
    alike = grouped(failed.reasons_of(theirs[:_CAUSES]), lambda one: (one.code, one.kind))
    groups = sorted(alike.values(), key=len, reverse=True)
    for group in groups[:_REASONS]:
        scopes = tuple(one.scope for one in group[:EXAMPLES])
        yield Trouble(severity, group[0].reason, len(group), scopes, group[0].code, group[0].command)
    rest = [one.scope for group in groups[_REASONS:] for one in group] + [scope for scope, _ in theirs[_CAUSES:]]
    if rest:
        said = f"failed check {check}: for other reasons, which `lakewarden status` lists"
        yield Trouble(severity, said, len(rest), tuple(rest[:EXAMPLES]))


def _late(table: Table, late: PendingScopes, now: datetime) -> Iterator[Trouble]:
    examples = list(late[:EXAMPLES])
    if examples:
        said = f"late: rows wait for up to {lasting(examples[0].age(now))} of interval:{interval_of(table)}"
        yield Trouble("late", said, len(late), tuple(one.scope for one in examples))


def _without(pending: PendingScopes, users: Collection[str | None]) -> PendingScopes:
    """The others: a flush of what is broken fails again."""
    if not users:
        return pending
    return pending.taken(np.array([at for at, one in enumerate(pending) if one.user not in users], dtype=np.int64))


def _waiting(others: PendingScopes) -> Iterator[Trouble]:
    """The scopes that have rows in the log and are not late."""
    most = np.argsort(-others.rows, kind="stable")[:EXAMPLES]
    examples = list(others.taken(most))
    if examples:
        said = f"up to {number_of(examples[0].rows, 'row')} in the log"
        yield Trouble("waiting", said, len(others), tuple(one.scope for one in examples))
