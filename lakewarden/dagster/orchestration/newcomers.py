"""Which users came to a table since a sensor's last tick: what a tick costs depends on them, and not on the users there are.

The cursor has the version of each table's registry. Which objects that version had, this process remembers; after a restart
the users are compared once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from lakewarden.catalog.model import Table
from lakewarden.tables.warehouse import Warehouse

_TABLES = 4096
"""Tables of which a process remembers the objects."""


@dataclass(frozen=True)
class RegistryLook:
    """A table's registry as of a tick. A table with one scope has no version."""

    table_id: str
    version: str = ""
    users: int = 0


@dataclass(frozen=True)
class Came:
    """The users who came since the cursor; all, where it cannot be said who did."""

    seen: RegistryLook
    users: frozenset[str] = frozenset()


def read_cursor(text: str | None) -> dict[str, RegistryLook]:
    """Returns what a cursor says, by table id. One of an earlier release has ids alone."""
    parts = (said.split(":") for said in (text or "").split())
    return {part[0]: RegistryLook(part[0], part[1], int(part[2])) if len(part) == 3 else RegistryLook(part[0]) for part in parts}


def write_cursor(seen: Iterable[RegistryLook]) -> str:
    return " ".join(f"{one.table_id}:{one.version}:{one.users}" for one in seen)


def newcomers(warehouse: Warehouse, table: Table, before: RegistryLook | None) -> Came:
    """Compares a table's registry with what a tick saw before."""
    if table.type == "SHARED":
        return Came(RegistryLook(table.id))
    version = warehouse.registry.version(table.id)
    if before is not None and before.version == version:
        return Came(before)
    memory = _memory(warehouse.state.uri, table.id)
    remembers = before is not None and before.version == memory.version
    added = warehouse.registry.added(table.id, memory.objects) if remembers else None
    added = added or warehouse.registry.everything(table.id)
    memory.version, memory.objects = version, added.objects
    users = before.users + len(added.users) if before is not None and added.counted is None else added.counted
    return Came(RegistryLook(table.id, version, users or 0), added.users)


@dataclass
class _Memory:
    """The objects that a table's registry had in one version."""

    state_uri: str
    table_id: str
    version: str = ""
    objects: frozenset[str] = frozenset()


_memory = lru_cache(maxsize=_TABLES)(_Memory)
