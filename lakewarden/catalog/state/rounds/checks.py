"""How far the checks have come in going round a table's scopes, in the order of their keyed hashes.

A hint, replaced by each run: with a lost one, the round starts again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection

from lakewarden.storage.objects import Missing, ObjectStore

ROOT = "check-rounds"


def next_of_round(store: ObjectStore, table_id: str, marks: Collection[str], most: int) -> list[str]:
    """Returns the scopes, by keyed hash, that were checked longest ago: at most so many."""
    try:
        last = store.get(_key(table_id)).decode()
    except Missing:
        last = ""
    ordered = sorted(marks)
    start = bisect_right(ordered, last)
    return [*ordered[start:], *ordered[:start]][:most]


def note_round(store: ObjectStore, table_id: str, last: str) -> None:
    """Notes the scope that was checked last."""
    store.put(_key(table_id), last.encode())


def forget_round(store: ObjectStore, table_id: str) -> None:
    store.delete([_key(table_id)])


def _key(table_id: str) -> str:
    return f"{ROOT}/{table_id}"
