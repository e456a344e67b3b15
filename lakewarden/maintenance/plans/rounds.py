"""The round of vacuums: each opens some scopes more, although nothing is superfluous there by what the state knows.

What a writer left that died is in no note. The rolling look does not find it: compactions note their looks, too, and list no
directory.

How far checks and vacuums have come in going round a table's scopes, in the order of their keyed hashes, are hints, which each
run replaces: with a lost one, or one of another release, the round starts again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, get_args

import msgspec
import numpy as np

from lakewarden.base.clock import to_millis
from lakewarden.catalog.model import Table
from lakewarden.catalog.state.floor_entries import KnownScopes
from lakewarden.maintenance.plans.census import FloorSurvey
from lakewarden.storage.objects import Missing, ObjectStore
from lakewarden.tables.warehouse import Warehouse

_HOUR = timedelta(hours=1) // timedelta(milliseconds=1)


@dataclass(frozen=True)
class VacuumTurn:
    """The scopes that a vacuum of a table opens next, by keyed hash, and how far the round is then."""

    scopes: tuple[str, ...]
    reached: RoundPlace


@dataclass(frozen=True)
class Round:
    """How far the vacuums of a table have come, and how many scopes the next one opens at the most."""

    last: str
    most: int
    now: int

    @classmethod
    def of(cls, warehouse: Warehouse, table: Table) -> Round:
        """As many scopes as a rolling look opens in an hour, for each hour since the last vacuum, and for a week at the most."""
        now, settings = to_millis(warehouse.clock()), warehouse.settings.maintenance
        before = reached(warehouse.state, "vacuum-rounds", table.id) or RoundPlace("", now)
        hours = min((now - before.at) // _HOUR, settings.look_hours)
        return cls(before.last, max(hours, 0) * settings.looks_per_run, now)

    def turn(self, survey: FloorSurvey) -> VacuumTurn:
        """The next scopes that the state knows; of an erased user nothing is opened."""
        known = KnownScopes.union(survey.parts()) if self.most else KnownScopes.of({})
        if not len(known):
            return VacuumTurn((), RoundPlace(self.last, self.now))
        start = bisect_right(range(len(known)), self.last, key=known.mark)
        chosen = np.zeros(len(known), np.bool_)
        at = (start + np.arange(min(self.most, len(known)))) % len(known)
        chosen[at] = True
        return VacuumTurn(tuple(known.hexadecimal(chosen)), RoundPlace(known.mark(int(at[-1])), self.now))


def note_turn(warehouse: Warehouse, table: Table, turn: VacuumTurn, *, dry_run: bool) -> None:
    """Lets the next vacuum go on behind these scopes; the one after a dry run opens what that has shown."""
    before = reached(warehouse.state, "vacuum-rounds", table.id)
    if before is None or (turn.scopes and not dry_run):
        note_reached(warehouse.state, "vacuum-rounds", table.id, turn.reached)


RoundKind = Literal["check-rounds", "vacuum-rounds"]


class RoundPlace(msgspec.Struct, frozen=True):
    """`last` is the scope that was come to last, empty before the first; `at` the time of that run in milliseconds."""

    last: str
    at: int


def reached(store: ObjectStore, kind: RoundKind, table_id: str) -> RoundPlace | None:
    """None before the first run in the table."""
    with suppress(Missing, ValueError):
        return msgspec.json.decode(store.get(f"{kind}/{table_id}"), type=RoundPlace)
    return None


def note_reached(store: ObjectStore, kind: RoundKind, table_id: str, now: RoundPlace) -> None:
    store.put(f"{kind}/{table_id}", msgspec.json.encode(now))


def forget_rounds(store: ObjectStore, table_id: str) -> None:
    store.delete([f"{kind}/{table_id}" for kind in get_args(RoundKind)])


def next_behind(place: RoundPlace | None, marks: Collection[str], most: int) -> list[str]:
    """Returns the scopes, by keyed hash, that were come to longest ago: at most so many."""
    ordered = sorted(marks)
    start = 0 if place is None else bisect_right(ordered, place.last)
    return [*ordered[start:], *ordered[:start]][:most]
