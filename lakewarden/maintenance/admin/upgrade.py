"""Upgrades a warehouse to the newest format: identities for storages, floors for tables, then the number that older releases
refuse. From format 2 to 3 only the number changes: the log then writes segments with an index. The settings by which all
processes go are taken over from this one's, once.

Every step is idempotent, and other processes see no change before the last one. Releases that only know an older format have
to be stopped first: one that has the warehouse open does not read the number again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import msgspec

from lakewarden.base.threads import at_once
from lakewarden.catalog.changes.objects import identify
from lakewarden.catalog.kept_settings import take_over
from lakewarden.catalog.model import Catalog, Storage
from lakewarden.catalog.state.floor import floor_at
from lakewarden.catalog.state.floor_entries import NO_TABLE, FloorLocation, KnownState
from lakewarden.catalog.state.founding import FILE, NEWEST_FORMAT, Identity
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.lifecycle.states import frozen_version, is_frozen
from lakewarden.delta.table import ScopeTable
from lakewarden.errors import Corrupt, StorageUnavailable
from lakewarden.log.logs import Logs
from lakewarden.maintenance.scopes import scopes_of
from lakewarden.storage.disk import sync
from lakewarden.storage.objects import ObjectStore
from lakewarden.storage.open import open_store
from lakewarden.storage.owner import StorageOwner, claim_for, naming, owner_of
from lakewarden.tables.floors import FloorNote, raise_floors
from lakewarden.tables.warehouse import Warehouse, cold_tables


@dataclass(frozen=True)
class UpgradedStorage:
    """A storage of an upgraded warehouse; `scopes` are those with a table on it."""

    storage_id: str
    base: str
    identity: str
    scopes: int
    format: int = NEWEST_FORMAT


def upgrade(warehouse: Warehouse) -> list[UpgradedStorage]:
    """Brings the warehouse to the newest format, and its catalog's settings to those of this process, where it has none. In one
    that has the format, no scope is opened. Processes that have it open reopen it.

    Raises:
        StorageUnavailable, StorageRefused: a storage cannot be reached, or is not the one that the catalog means.
        Corrupt: a scope that was flushed has no readable table.
        Nothing was upgraded then: fix what the message names, and upgrade again.
    """
    catalog = warehouse.catalog.read()
    for storage in catalog.storages.values():
        _check_storage(warehouse, storage)
    if warehouse.format == NEWEST_FORMAT:  # its scopes were looked at before that was written
        for storage in catalog.storages.values():
            _identify(warehouse, storage)
        catalog = warehouse.catalog.change(lambda catalog: take_over(catalog, warehouse.settings))
        return [_noted(warehouse, catalog, storage) for storage in catalog.storages.values()]
    _look_at(warehouse, catalog)
    for storage in catalog.storages.values():
        _identify(warehouse, storage)
    newest = replace(warehouse, format=NEWEST_FORMAT, logs=Logs(warehouse.state))
    catalog = newest.catalog.change(lambda catalog: take_over(catalog, warehouse.settings))
    found = _look_at(newest, catalog)
    raise_floors(found).check()
    _write_format(warehouse.state, Identity(NEWEST_FORMAT, warehouse.id))
    return [_report(newest, storage, found) for storage in catalog.storages.values()]


def _check_storage(warehouse: Warehouse, storage: Storage) -> None:
    """Raises:
    StorageUnavailable: the place has no marker, so it is not the storage; all but `local` got one when they were created.
    """
    with naming(warehouse.root(storage)):
        owner = owner_of(open_store(warehouse.location(storage)))
    made_here = storage.created_at is not None
    if (owner is None and made_here) or (owner is not None and owner.warehouse != warehouse.id):
        raise StorageUnavailable(
            f"storage {storage.id!r} at {warehouse.base(storage)} does not have this warehouse's marker: is it mounted?"
        )


def _look_at(warehouse: Warehouse, catalog: Catalog) -> list[FloorNote]:
    """Every registered scope's table as it is now, where one exists.

    Raises:
        Corrupt: one is missing or unreadable.
    """
    found: list[FloorNote] = []
    for table in cold_tables(catalog):
        view = warehouse.log(table).view(())
        targets = [warehouse.target_of(catalog, table, scope.user) for scope in scopes_of(warehouse, table, None)]
        flushed = table.type != "SHARED" or view.settled  # the scope of a SHARED table is never registered
        found += [one for one in at_once(partial(_look, flushed=flushed), targets) if one is not None]
    return found


def _look(target: ScopeTarget, *, flushed: bool) -> FloorNote | None:
    table = ScopeTable.open(target.location)
    if table is not None:
        state = table.state(target.app_id)
        version = frozen_version(table, target) if is_frozen(table, target) else table.version  # a move goes no further
        return FloorNote(target, KnownState(version, state.last_seq, state.rows, state.last_seq))
    if flushed:
        raise Corrupt(
            f"{target.scope} has no table at {target.uri}: if its first flush was cut off, flush it; if its storage is not"
            " mounted, or its table was lost, put it back; if it is not needed, erase or drop it. Then upgrade again"
        )
    return None


def _identify(warehouse: Warehouse, storage: Storage) -> None:
    identity = claim_for(
        open_store(warehouse.location(storage)), StorageOwner(warehouse.id, storage.identity or warehouse.new_id())
    )
    warehouse.catalog.change(lambda catalog: identify(catalog, storage.id, identity))


def _write_format(state: ObjectStore, identity: Identity) -> None:
    state.put(FILE, msgspec.json.encode(identity))
    sync({state.uri})


def _noted(warehouse: Warehouse, catalog: Catalog, storage: Storage) -> UpgradedStorage:
    """The report by the floors there, without opening a scope."""
    root = warehouse.root(storage)
    floors = (floor_at(FloorLocation.on_storage(root.location, table.id)).look().all() for table in cold_tables(catalog))
    scopes = sum(int(((known["version"] > NO_TABLE) & ~known["forgotten"].astype(bool)).sum()) for known in floors)
    return UpgradedStorage(storage.id, root.location.uri, root.identity, scopes)


def _report(warehouse: Warehouse, storage: Storage, found: Sequence[FloorNote]) -> UpgradedStorage:
    root = warehouse.root(storage)
    return UpgradedStorage(storage.id, root.location.uri, root.identity, sum(one.target.root == root for one in found))
