"""Chooses the scopes of a table that an operation opens, from what the state knows, without a request for each scope.

A scope that the state does not know is opened, never taken for quiet. On those that are not opened there are reports. What an
operation needs it says itself: for one note, and for all of an object together.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Literal

import numpy as np
import pyarrow as pa

from lakewarden.base.arrays import flags
from lakewarden.base.clock import to_millis
from lakewarden.base.connection import Location
from lakewarden.base.scope import Scope
from lakewarden.catalog.kept_settings import TailRule
from lakewarden.catalog.model import Catalog, Table
from lakewarden.catalog.operations import Operation
from lakewarden.catalog.report import ScopeReport
from lakewarden.catalog.state.failed_checks import NO_FILE_MENDS
from lakewarden.catalog.state.floor_entries import NO_TABLE, UNSEEN, KnownScopes, Rows
from lakewarden.catalog.state.floor_objects import Summary
from lakewarden.catalog.target import ScopeTarget
from lakewarden.errors import Corrupt, LakewardenError
from lakewarden.maintenance.plans.census import FloorSurvey, surveyed, users_of
from lakewarden.maintenance.plans.rounds import Round, VacuumTurn
from lakewarden.maintenance.scopes import scopes_of, targets_of
from lakewarden.tables.fanout import failed_report
from lakewarden.tables.presence import Presence
from lakewarden.tables.upkeep_rules import UNKNOWN, FoldRule, PackRule, UpkeepRule
from lakewarden.tables.warehouse import Warehouse


class Need(ABC):
    """When an operation may find something to do. A scope that was not looked at is always opened."""

    @abstractmethod
    def anywhere(self, summary: Summary) -> bool:
        """Whether it may for one of the scopes."""

    @abstractmethod
    def rows(self, scopes: KnownScopes) -> Rows:
        """For which of the scopes."""

    def later(self, scopes: KnownScopes) -> Rows:
        """For which of the others it may, too, where that can wait for a rolling look."""
        return np.zeros(len(scopes), np.bool_)


@dataclass(frozen=True)
class UnseenScopes(Need):
    """A check: those alone that were not looked at."""

    def anywhere(self, summary: Summary) -> bool:
        return summary.looked_at == UNSEEN

    def rows(self, scopes: KnownScopes) -> Rows:
        found: Rows = scopes["looked_at"] == UNSEEN
        return found


@dataclass(frozen=True)
class OtherRule(Need):
    """Compact and optimize: unless nothing was to do by this rule, or by a looser one, and no commit came since.

    `paced`: where nothing was to do by another rule, and no commit came since, a rolling look comes to it.
    """

    column: Literal["compacted", "optimized"]
    rule: UpkeepRule
    paced: bool = False

    def anywhere(self, summary: Summary) -> bool:
        found = summary.compacted if self.column == "compacted" else summary.optimized
        return summary.looked_at == UNSEEN or found is None or not all(map(self._covers, found))

    def rows(self, scopes: KnownScopes) -> Rows:
        found: Rows = (scopes["looked_at"] == UNSEEN) | (self._uncovered(scopes) & ~self.later(scopes))
        return found

    def later(self, scopes: KnownScopes) -> Rows:
        found: Rows = self._uncovered(scopes) & (scopes[self.column] != UNKNOWN) & self.paced
        return found

    def _uncovered(self, scopes: KnownScopes) -> Rows:
        noted = np.unique(scopes[self.column])
        covering = [number for number in noted.tolist() if self._covers(number)]
        found: Rows = ~np.isin(scopes[self.column], covering)
        return found

    def _covers(self, noted: int) -> bool:
        return noted == NO_TABLE or self.rule.covers(noted)


def to_compact(warehouse: Warehouse, table: Table, tail: TailRule | None = None, *, paced: bool = False) -> Need:
    """By another rule than the table's where it is given."""
    return OtherRule("compacted", FoldRule(tail or warehouse.rules(table).tail), paced)


def to_optimize(warehouse: Warehouse, table: Table, tail: TailRule | None = None, *, paced: bool = False) -> Need:
    """Without a Z-order, which opens each scope. By the ratio of another rule as `to_compact`."""
    rules = warehouse.rules(table)
    return OtherRule("optimized", PackRule(warehouse.target_file_size(table), rules.min_gain, (tail or rules.tail).ratio), paced)


_HOT = timedelta(days=1)
"""A scope with a commit since then is looked at before others."""


@dataclass(frozen=True)
class SelectedScopes:
    """The users whose scopes are opened, and the number of the others, in which nothing is to do."""

    users: tuple[str | None, ...]
    quiet: int
    turn: VacuumTurn | None = None
    """Those of them whose turn it is in a round."""


@dataclass(frozen=True)
class RollingLook:
    """Opens at most so many scopes that were not looked at since a moment. Milliseconds."""

    before: int
    hot_since: int
    most: int

    @classmethod
    def of(cls, warehouse: Warehouse) -> RollingLook:
        now, settings = warehouse.clock(), warehouse.settings.maintenance
        hours = timedelta(hours=settings.look_hours)
        return cls(to_millis(now - hours), to_millis(now - _HOT), settings.looks_per_run)

    def is_due(self, summary: Summary) -> bool:
        return self.most > 0 and summary.looked_at <= self.before

    def rows(self, scopes: KnownScopes, quiet: Rows, later: Rows) -> Rows:
        """Of those that are quiet the hot ones first, then those that were looked at longest ago; `later` are due as they are."""
        due = later | (scopes["looked_at"] <= self.before)
        old = np.flatnonzero(quiet & due & (scopes["compacted"] != NO_TABLE))
        cold = scopes["committed_at"][old] < self.hot_since
        chosen = np.zeros(len(scopes), np.bool_)
        chosen[old[np.lexsort((scopes["looked_at"][old], cold))[: self.most]]] = True
        return chosen


def select(
    warehouse: Warehouse,
    catalog: Catalog,
    table: Table,
    need: Need,
    rolling: RollingLook | None = None,
    besides: Collection[str] = (),
    going_round: Round | None = None,
) -> SelectedScopes:
    """With `rolling` some are looked at besides; and those with a keyed hash in `besides`, and those whose turn it is.

    Raises as `survey.surveyed`.
    """

    def selected(survey: FloorSurvey) -> SelectedScopes:
        """The users who were erased are not registered, and not among them."""
        turn = going_round.turn(survey) if going_round else None
        marks = survey.unknown.union(due(survey, need, rolling), besides, turn.scopes if turn else ())
        users = tuple(users_of(warehouse, table, marks, survey.hashed).values())
        return SelectedScopes(users, survey.scopes - len(users), turn)

    return surveyed(warehouse, catalog, table, selected)


def due(survey: FloorSurvey, need: Need, rolling: RollingLook | None = None) -> list[str]:
    """The keyed hashes of the known scopes that may need the operation."""
    if not any(summary is None or need.anywhere(summary) or _is_due(rolling, summary) for summary in survey.summaries):
        return []
    before = UNSEEN if rolling is None else rolling.before
    newest = newest_notes(survey.parts(), lambda part: need.rows(part) | need.later(part) | (part["looked_at"] <= before))
    found, later = need.rows(newest), need.later(newest)
    return newest.hexadecimal(found | later if rolling is None else found | rolling.rows(newest, ~found, later))


def newest_notes(parts: Sequence[KnownScopes], maybe: Callable[[KnownScopes], Rows]) -> KnownScopes:
    """The newest note of each scope that has one among these rows, in whichever part."""
    found = [maybe(part) for part in parts]
    scopes = [part.table.column("scope").combine_chunks() for part in parts]
    chosen = pa.concat_arrays([scope.filter(flags(rows)) for scope, rows in zip(scopes, found, strict=True)])
    return KnownScopes.union(part.among(chosen) for part in parts)


def _is_due(rolling: RollingLook | None, summary: Summary) -> bool:
    return rolling is not None and rolling.is_due(summary)


QUIET = "scopes_quiet"
"""The metric of a report on scopes that were not opened: how many."""

FAILED = "scopes_failed"
"""The metric of one report on the many scopes of a table that failed for the same reason."""

_LISTED = 100
"""Scopes of a table that are quiet, or that failed for the same reason, which are reported one by one."""


@dataclass(frozen=True)
class ChosenScopes:
    """The scopes of a table to open, and reports on the others."""

    targets: list[ScopeTarget]
    others: list[ScopeReport] = field(default_factory=list)
    turn: VacuumTurn | None = None


def choose_scopes(
    warehouse: Warehouse, catalog: Catalog, table: Table, operation: Operation, need: Need | None, going_round: Round | None
) -> ChosenScopes:
    """Those that the operation may need to open. Where the table's floor cannot be read or its storage is away, none is opened,
    and each is reported as failed.

    Args:
        need: when the operation opens a scope; None where it opens all.
        going_round: the round in which it comes to every scope; None where it goes no round.
    """
    away = list(Presence.among([warehouse.root(catalog.storages[table.options.storage_id])]).away.values())
    if away and not table.options.use_user_storage:
        return ChosenScopes([], _failed(warehouse, catalog, table, operation, away[0]))
    try:
        if need is None or away:  # nothing is quiet on a storage that is away; users may have others
            return ChosenScopes(targets_of(warehouse, catalog, [str(table.name)], None))
        rolling, besides = RollingLook.of(warehouse), _obstructed(warehouse, table)
        found = select(warehouse, catalog, table, need, rolling, besides, going_round=going_round)
        targets = [warehouse.target(catalog, Scope(table.name, user)) for user in sorted(found.users, key=str)]
        return ChosenScopes(targets, _report(warehouse, catalog, table, operation, found), found.turn)
    except Corrupt as error:
        return ChosenScopes([], _failed(warehouse, catalog, table, operation, error))


def _obstructed(warehouse: Warehouse, table: Table) -> list[str]:
    """The keyed hashes of scopes in which something of another writer is in the way: that is said, not that nothing is to do."""
    failed = warehouse.failed_checks.of(table.id)
    return [mark for mark, failures in failed.items() if any(each.check in NO_FILE_MENDS for each in failures)]


def _failed(
    warehouse: Warehouse, catalog: Catalog, table: Table, operation: Operation, error: LakewardenError
) -> list[ScopeReport]:
    """A failed report for each scope of the table; of many, one that counts them."""
    scopes, now = scopes_of(warehouse, table, None), warehouse.clock()
    listed = [warehouse.bare_target(catalog, table, scope.user) for scope in scopes[:_LISTED]]
    reports = [failed_report(target, operation, error, now) for target in listed]
    if len(scopes) <= _LISTED:
        return reports
    place = warehouse.location(catalog.storages[table.options.storage_id])
    reason = f"{len(scopes)} scopes: {reports[0].reason}"
    return [replace(reports[0], scope=Scope(table.name), location=place, reason=reason, metrics={FAILED: len(scopes)})]


def _report(
    warehouse: Warehouse, catalog: Catalog, table: Table, operation: Operation, found: SelectedScopes
) -> list[ScopeReport]:
    """A report for each quiet scope; of many, one that counts them."""
    if not found.quiet:
        return []
    reason = "nothing to do, by what the state knows"
    if found.quiet > _LISTED:
        place = warehouse.location(catalog.storages[table.options.storage_id])
        reason = f"nothing to do in {found.quiet} scopes, by what the state knows"
        return [_quiet(Scope(table.name), operation, place, reason, found.quiet)]
    opened = set(found.users)
    scopes = [scope for scope in scopes_of(warehouse, table, None) if scope.user not in opened]
    places = [warehouse.location_of(catalog, table, scope.user) for scope in scopes]
    return [_quiet(scope, operation, place, reason, 1) for scope, place in zip(scopes, places, strict=True)]


def _quiet(scope: Scope, operation: Operation, place: Location, reason: str, scopes: int) -> ScopeReport:
    return ScopeReport(scope, operation, "skipped", place, reason=reason, metrics={QUIET: scopes})
