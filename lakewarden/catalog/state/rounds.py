"""How far checks and vacuums have come in going round a table's scopes, in the order of their keyed hashes.

Hints, replaced by each run: with a lost one, the round starts again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection
from contextlib import suppress

import msgspec

from lakewarden.storage.objects import Missing, ObjectStore

CHECK_ROUNDS = "check-rounds"


def next_of_round(store: ObjectStore, table_id: str, marks: Collection[str], most: int) -> list[str]:
    """Returns the scopes, by keyed hash, that were checked longest ago: at most so many."""
    try:
        last = store.get(_check_key(table_id)).decode()
    except Missing:
        last = ""
    ordered = sorted(marks)
    start = bisect_right(ordered, last)
    return [*ordered[start:], *ordered[:start]][:most]


def note_round(store: ObjectStore, table_id: str, last: str) -> None:
    """Notes the scope that was checked last."""
    store.put(_check_key(table_id), last.encode())


def forget_round(store: ObjectStore, table_id: str) -> None:
    store.delete([_check_key(table_id)])


def _check_key(table_id: str) -> str:
    return f"{CHECK_ROUNDS}/{table_id}"


VACUUM_ROUNDS = "vacuum-rounds"


class VacuumPlace(msgspec.Struct, frozen=True):
    """`last` is the scope that was opened last, empty before the first; `at` the time of that run in milliseconds."""

    last: str
    at: int


def reached(store: ObjectStore, table_id: str) -> VacuumPlace | None:
    """None before the first vacuum of the table."""
    with suppress(Missing, msgspec.DecodeError):
        return msgspec.json.decode(store.get(_vacuum_key(table_id)), type=VacuumPlace)
    return None


def note_reached(store: ObjectStore, table_id: str, now: VacuumPlace) -> None:
    store.put(_vacuum_key(table_id), msgspec.json.encode(now))


def forget_reached(store: ObjectStore, table_id: str) -> None:
    store.delete([_vacuum_key(table_id)])


def _vacuum_key(table_id: str) -> str:
    return f"{VACUUM_ROUNDS}/{table_id}"
