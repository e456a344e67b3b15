"""Chooses the scopes of a table that an operation opens, from what the state knows, without a request for each scope.

A scope that the state does not know is opened, never taken for quiet.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
import pyarrow as pa

from lakewarden.base.arrays import flags
from lakewarden.base.clock import to_millis
from lakewarden.catalog.model import Catalog, Table
from lakewarden.catalog.state.floor_entries import NO_TABLE, UNSEEN, KnownScopes, Rows
from lakewarden.catalog.state.floor_objects import Summary
from lakewarden.maintenance.plans.census import FloorSurvey, surveyed, users_of
from lakewarden.maintenance.plans.needs import Need
from lakewarden.maintenance.plans.rounds import Round, VacuumTurn
from lakewarden.tables.warehouse import Warehouse

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
    return surveyed(warehouse, catalog, table, lambda survey: _selected(survey, need, rolling, besides, going_round))


def _selected(
    survey: FloorSurvey, need: Need, rolling: RollingLook | None, besides: Collection[str], going_round: Round | None
) -> SelectedScopes:
    """The users who were erased are not registered, and not among them."""
    turn = going_round.turn(survey) if going_round else None
    marks = survey.unknown.union(due(survey, need, rolling), besides, turn.scopes if turn else ())
    users = tuple(users_of(survey.warehouse, survey.table, marks, survey.hashed).values())
    return SelectedScopes(users, survey.scopes - len(users), turn)


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
