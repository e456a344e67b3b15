"""Which objects of a floor know all users of a table: so that a look at names alone says that no scope is unknown.

The note names the registry's objects and the floor's of that time. It holds as long as each of the floor's is there, or was
absorbed by one that is; of the registry's, users who were added since are compared alone. Without it, every user is compared
(`maintenance.upkeep.survey`).
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass

from lakewarden.catalog.state.floors.floor import FloorScan
from lakewarden.storage.objects import AlreadyThere, Missing, ObjectStore

ROOT = "whole"


@dataclass(frozen=True)
class Whole:
    """All users of a registry, and the objects of a floor that know them."""

    users: int
    registry: frozenset[str]
    """The names of the registry's objects; empty for a table with one scope."""
    objects: frozenset[str]

    def holds(self, scan: FloorScan) -> bool:
        """Returns whether all that is known to these objects is still known."""
        return self.objects <= scan.names.union(*(head.absorbed for head in scan.heads.values()))


def find_whole(state: ObjectStore, table_id: str, registry: str) -> Whole | None:
    """Returns the note for this version of the registry."""
    return _read(state, _key(table_id, registry))


def earlier_whole(state: ObjectStore, table_id: str) -> Whole | None:
    """Returns a note for another version of the registry."""
    found = state.list(f"{ROOT}/{table_id}")
    return _read(state, found[0].key) if found else None


def keep_whole(state: ObjectStore, table_id: str, registry: str, whole: Whole) -> None:
    """Replaces the table's notes by this one."""
    remove_whole(state, table_id)
    said = {"users": whole.users, "registry": sorted(whole.registry), "objects": sorted(whole.objects)}
    with suppress(AlreadyThere):  # another process compared them too
        state.create(_key(table_id, registry), json.dumps(said).encode())


def remove_whole(state: ObjectStore, table_id: str) -> None:
    state.delete([found.key for found in state.list(f"{ROOT}/{table_id}")])


def _read(state: ObjectStore, key: str) -> Whole | None:
    try:
        said = json.loads(state.get(key))
        return Whole(int(said["users"]), frozenset(map(str, said["registry"])), frozenset(map(str, said["objects"])))
    except (Missing, ValueError, KeyError, TypeError):
        return None


def _key(table_id: str, registry: str) -> str:
    return f"{ROOT}/{table_id}/{registry}"
