"""Which objects of a floor know all users of a table: so that a look at names alone says that no scope is unknown.

The note names the registry's version and the floor's objects of that time. It holds as long as the registry has that version
and each of the objects is there, or was absorbed by one that is. Without it, every user is compared (`operations.upkeep`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from lakewarden.state.floors.floor import FloorScan
from lakewarden.storage.objects import AlreadyThere, Missing, ObjectStore

ROOT = "whole"


@dataclass(frozen=True)
class Whole:
    """The number of users, and the names of the objects that know them."""

    users: int
    objects: frozenset[str]

    def holds(self, scan: FloorScan) -> bool:
        """Whether all that is known to these objects is still known."""
        there = {key.rpartition("/")[2] for key in scan.heads}
        return self.objects <= there.union(*(head.absorbed for head in scan.heads.values()))


def find_whole(state: ObjectStore, table_id: str, registry: str) -> Whole | None:
    """Returns the note for this version of the registry."""
    try:
        said = json.loads(state.get(_key(table_id, registry)))
        return Whole(int(said["users"]), frozenset(map(str, said["objects"])))
    except (Missing, ValueError, KeyError, TypeError):
        return None


def keep_whole(state: ObjectStore, table_id: str, registry: str, users: int, objects: Iterable[str]) -> None:
    """Replaces the table's notes by this one."""
    remove_whole(state, table_id)
    said = {"users": users, "objects": sorted(key.rpartition("/")[2] for key in objects)}
    with suppress(AlreadyThere):  # another process compared them too
        state.create(_key(table_id, registry), json.dumps(said).encode())


def remove_whole(state: ObjectStore, table_id: str) -> None:
    state.delete([found.key for found in state.list(f"{ROOT}/{table_id}")])


def _key(table_id: str, registry: str) -> str:
    return f"{ROOT}/{table_id}/{registry}"
