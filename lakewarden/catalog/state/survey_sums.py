"""The sums of the last look at each surveyed place: `fleet/surveys/<place>`, beside what else the page of the fleet reads.

They stand in the family of the fleet, so that a warehouse without surveys lists nothing more for its page. `place` is a keyed
hash.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime

import msgspec

from lakewarden.base.clock import from_millis
from lakewarden.catalog.state import fleet_days
from lakewarden.storage.objects import Missing, ObjectStore

_SURVEYS = f"{fleet_days.ROOT}/surveys"


class WorstTable(msgspec.Struct, frozen=True):
    """One of the worst tables. Users in its path stand by keyed hash."""

    path: str
    damage: dict[str, int] = {}
    """How often each kind was found."""
    detail: str = ""
    """Of the first damage, or why the table could not be read."""


class SurveySums(msgspec.Struct, frozen=True):
    """A place as its last look found it. Sizes in bytes; tables whose figures are not known add nothing."""

    place: str
    """Its URI; users in it stand by keyed hash."""
    at: int
    """Milliseconds."""
    tables: dict[str, int] = {}
    """By verdict."""
    damage: dict[str, int] = {}
    """Tables, by kind of damage."""
    files: int = 0
    bytes: int = 0
    small_files: int = 0
    dead_bytes: int = 0
    unnamed_files: int = 0
    worst: dict[str, list[WorstTable]] = {}
    """By verdict: the keys are no texts that an erasure searches."""
    place_id: str = ""
    """The beginning of the place's keyed hash: what metrics name it by."""

    @property
    def looked_at(self) -> datetime:
        return from_millis(self.at)

    @property
    def total(self) -> int:
        """How many tables there are."""
        return sum(self.tables.values())

    def count(self, verdict: str) -> int:
        return self.tables.get(verdict, 0)


def keep(state: ObjectStore, place: str, sums: SurveySums) -> str:
    """Replaces the sums of a place; returns their key."""
    key = f"{_SURVEYS}/{place}"
    state.put(key, msgspec.json.encode(sums))
    return key


def keys(state: ObjectStore) -> list[str]:
    return [found.key for found in state.list(_SURVEYS)]


def kept(state: ObjectStore, listed: Iterable[str]) -> list[SurveySums]:
    """The sums among these keys of the fleet's family, by place; what cannot be read is left out, until the next look."""
    found = list[SurveySums]()
    for key in listed:
        if key.startswith(f"{_SURVEYS}/"):
            with suppress(Missing, msgspec.DecodeError, msgspec.ValidationError):
                found.append(msgspec.json.decode(state.get(key), type=SurveySums))
    return sorted(found, key=lambda one: one.place)
