"""How far vacuums have come in going round a table's scopes, in the order of their keyed hashes, and when.

A hint: with a lost one, the round starts again.
"""

from __future__ import annotations

from contextlib import suppress

import msgspec

from lakewarden.storage.objects import Missing, ObjectStore

ROOT = "vacuum-rounds"


class VacuumPlace(msgspec.Struct, frozen=True):
    """`last` is the scope that was opened last, empty before the first; `at` the time of that run in milliseconds."""

    last: str
    at: int


def reached(store: ObjectStore, table_id: str) -> VacuumPlace | None:
    """None before the first vacuum of the table."""
    with suppress(Missing, msgspec.DecodeError):
        return msgspec.json.decode(store.get(_key(table_id)), type=VacuumPlace)
    return None


def note_reached(store: ObjectStore, table_id: str, now: VacuumPlace) -> None:
    store.put(_key(table_id), msgspec.json.encode(now))


def forget_reached(store: ObjectStore, table_id: str) -> None:
    store.delete([_key(table_id)])


def _key(table_id: str) -> str:
    return f"{ROOT}/{table_id}"
