"""How far checks and vacuums have come in going round a table's scopes, in the order of their keyed hashes.

Hints, replaced by each run: with a lost one, or one of another release, the round starts again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection
from contextlib import suppress
from typing import Literal, get_args

import msgspec

from lakewarden.storage.objects import Missing, ObjectStore

RoundKind = Literal["check-rounds", "vacuum-rounds"]


class RoundPlace(msgspec.Struct, frozen=True):
    """`last` is the scope that was come to last, empty before the first; `at` the time of that run in milliseconds."""

    last: str
    at: int


def reached(store: ObjectStore, kind: RoundKind, table_id: str) -> RoundPlace | None:
    """None before the first run in the table."""
    with suppress(Missing, msgspec.DecodeError):
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
