"""Chooses the scopes of a table that an operation opens, from what the state knows, without a request for each scope.

A scope that the state does not know is opened, never taken for quiet. That every registered user is known is noted
(`state.floors.whole`). Without that note, or if the floor on a storage has settled more than the state knows, as when
the state was deleted or replaced by an older one, every user is compared once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
import pyarrow as pa

from lakewarden.access.rights import can
from lakewarden.catalog.model import Catalog, Table
from lakewarden.clock import to_millis
from lakewarden.errors import Conflict, StorageRefused, StorageUnavailable
from lakewarden.operations.upkeep.needs import Need
from lakewarden.state.floors.entries import NO_TABLE, NOTHING, UNSEEN, FloorLocation
from lakewarden.state.floors.floor import Floor, floor_at
from lakewarden.state.floors.known_scopes import KnownScopes, Rows
from lakewarden.state.floors.objects import Summary
from lakewarden.state.floors.whole import Whole, find_whole, keep_whole
from lakewarden.storage.objects import Missing
from lakewarden.warehouse import Warehouse

_ATTEMPTS = 10

_HOT = timedelta(days=1)
"""A scope with a commit since then is looked at before others."""

_ONE_SCOPE = "shared"
"""Instead of the registry's version, where a table has one scope, which is not registered."""


@dataclass(frozen=True)
class Selected:
    """The users whose scopes are opened, and the number of the others, in which nothing is to do."""

    users: tuple[str | None, ...]
    quiet: int


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

    def rows(self, scopes: KnownScopes, quiet: Rows) -> Rows:
        """The hot ones first, then those that were looked at longest ago."""
        old = np.flatnonzero(quiet & (scopes["looked_at"] <= self.before) & (scopes["compacted"] != NO_TABLE))
        cold = scopes["committed_at"][old] < self.hot_since
        chosen = np.zeros(len(scopes), np.bool_)
        chosen[old[np.lexsort((scopes["looked_at"][old], cold))[: self.most]]] = True
        return chosen


def select(warehouse: Warehouse, catalog: Catalog, table: Table, need: Need) -> Selected:
    """Raises:
    Corrupt: the floor or the registry cannot be read.
    Conflict: the floor changed with each look.
    """
    for _ in range(_ATTEMPTS):
        with suppress(Missing):  # objects were merged since the listing
            return _selected(warehouse, catalog, table, need)
    raise Conflict(f"the floor of {table.name} changed {_ATTEMPTS} times while it was read; try again")


def _selected(warehouse: Warehouse, catalog: Catalog, table: Table, need: Need) -> Selected:
    floor = floor_at(warehouse.floor(table))
    registry = warehouse.registry.version(table.id) if can(table.type, "a scope per user") else _ONE_SCOPE
    scan = floor.scan()
    whole = find_whole(warehouse.state, table.id, registry)
    if whole is None or not whole.holds(scan) or _settled(warehouse, catalog, table) > scan.position:
        return _compared(warehouse, catalog, table, need, registry)
    rolling = RollingLook.of(warehouse)
    summaries = [head.summary for head in scan.heads.values()]
    if not any(summary is None or need.anywhere(summary) or rolling.is_due(summary) for summary in summaries):
        return Selected((), whole.users)
    return _opened(warehouse, table, whole, _due(floor.parts(scan.heads).values(), need, rolling))


def _opened(warehouse: Warehouse, table: Table, whole: Whole, due: Iterable[str]) -> Selected:
    """The users with these keyed hashes; those who were erased are not registered."""
    marks = set(due)
    users = tuple(user for mark, user in _registered(warehouse, table).items() if mark in marks) if marks else ()
    return Selected(users, whole.users - len(users))


def _due(parts: Iterable[KnownScopes], need: Need, rolling: RollingLook) -> list[str]:
    """The keyed hashes of the scopes that may need the operation, by the newest note of each."""
    parts = list(parts)
    scopes = [part.table.column("scope").combine_chunks() for part in parts]
    found = [need.rows(part) | (part["looked_at"] <= rolling.before) for part in parts]
    maybe = pa.concat_arrays([scope.filter(pa.array(rows)) for scope, rows in zip(scopes, found, strict=True)])
    notes = (part.among(maybe) for part in parts)
    newest = KnownScopes.union(notes)
    return newest.hexadecimal(_rows(newest, need, rolling))


def _rows(newest: KnownScopes, need: Need, rolling: RollingLook) -> Rows:
    due = need.rows(newest)
    looked: Rows = due | rolling.rows(newest, ~due)
    return looked


def _compared(warehouse: Warehouse, catalog: Catalog, table: Table, need: Need, registry: str) -> Selected:
    """Compares all registered users with what the floors know of them."""
    registered = _registered(warehouse, table)
    if not registered:
        return Selected((), 0)
    floor = floor_at(warehouse.floor(table))
    _restored(warehouse, catalog, table, floor)
    scan = floor.scan()
    known = KnownScopes.union(floor.parts(scan.heads).values())
    due = set(known.hexadecimal(_rows(known, need, RollingLook.of(warehouse))))
    there = set(known.hexadecimal(np.ones(len(known), np.bool_)))
    unknown = [mark for mark in registered if mark not in there]
    if not unknown:
        keep_whole(warehouse.state, table.id, registry, len(registered), scan.heads)
    users = tuple(user for mark, user in registered.items() if mark in due or mark not in there)
    return Selected(users, len(registered) - len(users))


def _restored(warehouse: Warehouse, catalog: Catalog, table: Table, floor: Floor) -> None:
    """Gives the state what the storages know and it does not; that is looked at again."""
    copies = list(_copies(warehouse, catalog, table))
    before = floor.look().all()
    joined = KnownScopes.union([before, *(copy.look().all().without_upkeep() for copy in copies)])
    news = joined.only(joined["looked_at"] == UNSEEN).besides(before)
    settled = max((copy.seen for copy in copies), default=NOTHING)
    if len(news) or settled > floor.seen:
        floor.add(max(settled, floor.seen), news)


def _settled(warehouse: Warehouse, catalog: Catalog, table: Table) -> int:
    """The highest position that a storage with scopes of the table knows to be settled; storages that are away know none."""
    return max((copy.seen for copy in _copies(warehouse, catalog, table)), default=NOTHING)


def _copies(warehouse: Warehouse, catalog: Catalog, table: Table) -> Iterator[Floor]:
    """The table's floors on the storages that are there, each listed now."""
    own = [catalog.storages[table.options.storage_id]]
    for storage in catalog.storages.values() if table.options.use_user_storage else own:
        copy = floor_at(FloorLocation.on_storage(warehouse.location(storage), table.id))
        with suppress(StorageUnavailable, StorageRefused):
            copy.position()
            yield copy


def _registered(warehouse: Warehouse, table: Table) -> dict[str, str | None]:
    """The users of a table by keyed hash; the one scope of a SHARED table has no user."""
    if not can(table.type, "a scope per user"):
        return {warehouse.erasures.mark(""): None}
    return {warehouse.erasures.mark(user): user for user in warehouse.registry.users(table.id)}
