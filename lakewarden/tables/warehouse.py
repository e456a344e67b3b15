"""An open warehouse: its place, its identity, and the state objects under `_lakewarden/`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial

import msgspec

from lakewarden.base.clock import Clock, NewId
from lakewarden.base.connection import Location, StorageRoot
from lakewarden.base.scope import NOTHING, Scope, TableName
from lakewarden.base.settings import Settings
from lakewarden.catalog.access import can, require
from lakewarden.catalog.changes.users import own_storage
from lakewarden.catalog.kept_settings import KeptSettings, UpkeepRules, contradictions, kept_settings
from lakewarden.catalog.locks import LockFactory
from lakewarden.catalog.model import Catalog, Storage, Table
from lakewarden.catalog.state.erasures import Erasures
from lakewarden.catalog.state.exports import Exports
from lakewarden.catalog.state.failed_checks import FailedChecks
from lakewarden.catalog.state.floor import RECENT_SECONDS, floor_at
from lakewarden.catalog.state.floor_entries import FloorLocation, KnownState
from lakewarden.catalog.state.founding import FILE, FIRST_FORMAT, INDEXED_FORMAT, Identity, found_warehouse, read_identity
from lakewarden.catalog.state.scope_registry import RegisteredUsers, ScopeRegistry
from lakewarden.catalog.state.user_storages import THE_TABLES, UserStorages
from lakewarden.catalog.store import CatalogStore
from lakewarden.catalog.target import RecentTargets, ScopeTarget, check_scope
from lakewarden.delta.reading.column_cache import ColdCache, ColumnCache, TableCache
from lakewarden.errors import (
    Conflict,
    FailedPrecondition,
    InUse,
    NotFound,
    StorageRefused,
    StorageUnavailable,
    TableNotFound,
)
from lakewarden.log.logs import Logs
from lakewarden.log.table_log import LogTerms, TableLog
from lakewarden.storage.folders import Folders
from lakewarden.storage.location import canonical, delta_uri, join
from lakewarden.storage.objects import Missing, ObjectStore
from lakewarden.storage.open import open_store
from lakewarden.storage.paths import STATE, scope_path
from lakewarden.storage.probe import probe_at_open
from lakewarden.tables.keys.pending import PendingKeys

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Warehouse:
    """Handles to everything in one warehouse. Cheap to create, safe to share between threads."""

    uri: str
    id: str
    format: int
    """The format of `_lakewarden/`; by it, storages have identities and tables have floors (`catalog.state.founding`)."""
    state: ObjectStore
    catalog: CatalogStore
    registry: ScopeRegistry
    erasures: Erasures
    exports: Exports
    failed_checks: FailedChecks
    user_storages: UserStorages
    logs: Logs
    cold: ColdCache
    settings: Settings
    clock: Clock
    new_id: NewId
    folders: Folders = field(default_factory=Folders)
    pending_keys: PendingKeys = field(default_factory=PendingKeys)
    registered: RegisteredUsers = field(default_factory=RegisteredUsers)
    targets: RecentTargets = field(default_factory=RecentTargets)

    @classmethod
    def open(cls, uri: str, settings: Settings, clock: Clock, new_id: NewId, *, create: bool = True) -> Warehouse:
        """Opens the warehouse, and with `create` makes it if it does not exist.

        Raises:
            NotFound: it does not exist, and `create` is not given.
            StorageRefused, StorageUnavailable: the place can't be written or reached.
            UnconditionalStore: the store ignores conditions.
            Unsupported: the place cannot hold Delta tables.
            Corrupt: the state there was not made by Lakewarden.
        """
        uri = canonical(uri)
        state = open_store(Location(uri).below(STATE))
        erasures = Erasures(state)
        identity = _identity(uri, state, CatalogStore(state, clock), new_id, settings if create else None)
        probe_at_open(state, Location(uri), new_id)
        return cls(
            uri=uri,
            id=identity.id,
            format=identity.format,
            state=state,
            catalog=CatalogStore(state, clock, founded=identity.format > FIRST_FORMAT),
            registry=ScopeRegistry(state, new_id, in_blocks=identity.format >= INDEXED_FORMAT),
            erasures=erasures,
            exports=Exports(state),
            failed_checks=FailedChecks(state, erasures.mark),
            user_storages=UserStorages(state, erasures.mark),
            logs=Logs(state),
            cold=ColdCache(TableCache(), ColumnCache(settings.sql.cache_bytes)),
            settings=settings,
            clock=clock,
            new_id=new_id,
        )

    @property
    def identifies(self) -> bool:
        """Whether storages have identities and tables have floors."""
        return self.format > FIRST_FORMAT

    @property
    def locks(self) -> LockFactory:
        return LockFactory(self.state.uri, self.settings.locks)

    def log(self, table: Table) -> TableLog:
        """Returns the write log of the table: one object for all callers, so that concurrent appends share segments."""

        def still_there() -> None:
            if find_table(self.catalog.read(), table.name).id != table.id:
                raise NotFound(f"{table.name} was dropped, and another table now has its name: open it again")

        def terms() -> LogTerms:
            return LogTerms(
                msgspec.structs.replace(self.settings.log, retention_seconds=self.retention_of(table)),
                self.clock,
                self.new_id,
                self.erasures.mark,
                self.format,
                partial(self._settled, table),
                still_there,
            )

        return self.logs.of(table.log_id, terms)

    def retention_of(self, table: Table) -> float:
        """Returns the seconds that a table's changes are kept behind a flush."""
        return table.kept_seconds(self.settings.log.retention_seconds)

    def target(self, catalog: Catalog, scope: Scope) -> ScopeTarget:
        """Returns what work on one scope needs to know.

        Raises:
            NotFound: the table is not in the catalog.
            InvalidArgument: a user for a SHARED table, no user for a USER table, or an invalid user id.
            Unsupported: a STREAM table, whose rows are in the log only.
            Corrupt: the table's floor cannot be read.
        """
        kept = self.targets.of(catalog)
        target = kept.get(scope)
        if target is None:
            table = find_table(catalog, scope.table)
            require(table, "cold tier", "flushes, maintenance, versions")
            check_scope(table, scope)
            target = self.bare_target(catalog, table, scope.user)
            if not table.options.use_user_storage:  # which the state says of each user
                kept.put(scope, target)
        return _with_known(target)

    def place(self, catalog: Catalog, table: Table, user: str | None) -> Callable[[], ScopeTarget]:
        """Returns what looks the scope up, in this catalog first, then in the newest one: a `Place`."""
        first = iter((catalog,))
        return lambda: self.target(next(first, None) or self.catalog.read(), Scope(table.name, user))

    def target_of(self, catalog: Catalog, table: Table, user: str | None) -> ScopeTarget:
        """Returns the same for a table that may be in the middle of a drop."""
        return _with_known(self.bare_target(catalog, table, user))

    def read_ahead(self, table: Table, users: Iterable[str | None]) -> Mapping[str, KnownState]:
        """Reads what the state knows of these scopes at once, by their marks; for each of them `target_of` then reads nothing.

        Raises:
            Corrupt: the table's floor cannot be read.
        """
        marks = [self.erasures.mark(user or "") for user in users] if self.identifies else []
        return floor_at(self.floor(table)).known(marks, RECENT_SECONDS) if marks else {}

    def bare_target(self, catalog: Catalog, table: Table, user: str | None) -> ScopeTarget:
        """Returns the same without the floor of the scope's table, and reads nothing."""
        return self.target_on(self._storage_id(catalog, table, user), catalog, table, user)

    def location_of(self, catalog: Catalog, table: Table, user: str | None, storage_id: str = "") -> Location:
        """Returns where the scope's Delta table is, or would be, on its own storage or on that one; reads nothing."""
        storage = catalog.storages[storage_id or self._storage_id(catalog, table, user)]
        template = storage.shared_template if table.type == "SHARED" else storage.user_template
        return self.location(storage).below(scope_path(template, Scope(table.name, user), storage.folds_case))

    def target_on(self, storage_id: str, catalog: Catalog, table: Table, user: str | None) -> ScopeTarget:
        """Returns the same as if the scope were on that storage, of whose tables nothing is known."""
        location = self.location_of(catalog, table, user, storage_id)
        app_id = f"lakewarden/{self.id}/{table.log_id}"
        return ScopeTarget(
            scope=Scope(table.name, user),
            location=location,
            schemas=table.schemas,
            app_id=app_id,
            compression=table.options.compression,
            target_file_size=self.target_file_size(table),
            retention_hours=self.retention_hours(table),
            root=self.root(catalog.storages[storage_id]),
            mark=self.erasures.mark(user or "") if self.identifies else "",
            manifest_key=self.erasures.derived_key(location.uri, app_id, user or "") if self.identifies else "",
            floor=self.floor(table) if self.identifies else None,
            change_data_feed=table.options.change_data_feed,
            buckets=1 if table.dynamic is None else table.dynamic.bucket,
            rules=self.kept_settings(catalog).rules(table),
        )

    def rules(self, table: Table) -> UpkeepRules:
        """Returns the rules of the table's maintenance."""
        return self.kept_settings(self.catalog.recent()).rules(table)

    def kept_settings(self, catalog: Catalog) -> KeptSettings:
        """Returns the settings that all processes go by, and warns where this one's own say something else."""
        found = kept_settings(catalog, self.settings)
        for name in contradictions(found, self.settings):
            _warn_of(self.uri, name, found.text(name))
        return found

    def target_file_size(self, table: Table) -> int:
        """Returns the bytes of the files that optimize writes."""
        return table.options.target_file_size or self.settings.maintenance.target_file_size

    def retention_hours(self, table: Table) -> int:
        """Returns the hours that a vacuum keeps removed files."""
        hours = table.options.retention_hours
        return self.settings.maintenance.retention_hours if hours is None else hours

    def _storage_id(self, catalog: Catalog, table: Table, user: str | None) -> str:
        """Returns where a scope is: where its first flush put it, or, before that, where it would be put now."""
        return self._apart(catalog, table, user) or table.options.storage_id

    def _apart(self, catalog: Catalog, table: Table, user: str | None) -> str | None:
        """Returns the storage of a scope that is on its user's own storage."""
        if user is None or not table.options.use_user_storage:
            return None
        storage = self.user_storages.of(table.id, user) or own_storage(catalog, user)
        return None if storage == THE_TABLES else storage

    def goes_along(self, catalog: Catalog, table: Table, user: str | None) -> bool:
        """Returns whether the scope is on its table's storage, and so moves with the table."""
        return self._apart(catalog, table, user) is None

    def fix_storage(self, catalog: Catalog, table: Table, user: str) -> None:
        """Fixes the storage of a scope. Call this before anything is written there."""
        if table.options.use_user_storage:
            self.user_storages.decide(table.id, user, own_storage(catalog, user) or THE_TABLES)

    def check_open(self, catalog: Catalog, table: Table, user: str | None) -> None:
        """Checks that the scope is not being moved. Read the catalog after registering the scope: a move
        that this catalog does not show then sees the scope (docs/decisions/0014-moving-by-freezing.md).

        Raises:
            Conflict: the scope is frozen, or about to be, since its table is being moved.
        """
        if table.move is not None and table.move.phase == "closing" and self.goes_along(catalog, table, user):
            raise Conflict(
                f"{Scope(table.name, user)} is being moved to storage {table.move.target!r}: new rows stay in the log"
                f" until the move is done; try again then, or finish it (lakewarden move {table.name} --to {table.move.target})"
            )

    def base(self, storage: Storage) -> str:
        """Returns where a storage's tables are. A base without a scheme or leading slash is relative to the warehouse."""
        relative = "://" not in storage.base and not storage.base.startswith("/")
        return join(self.uri, storage.base) if relative else storage.base

    def location(self, storage: Storage) -> Location:
        """Returns the same place, with the storage's own connection."""
        return Location(self.base(storage), storage.connection)

    def floor(self, table: Table) -> FloorLocation:
        """Returns the table's floor in the warehouse's state."""
        return FloorLocation.in_state(Location(self.state.uri), table.id)

    def _settled(self, table: Table) -> int | None:
        """Returns the last position that the table's storage knows to be settled; None when unknown."""
        if not (self.identifies and can(table.type, "cold tier")):
            return None
        catalog = self.catalog.read()
        storage = catalog.storages[catalog.tables.get(table.name, table).options.storage_id]
        try:
            position = floor_at(FloorLocation.on_storage(self.location(storage), table.id)).position()
        except (StorageUnavailable, StorageRefused):
            return None  # rows are accepted while the storage is away
        return None if position == NOTHING else position

    def root(self, storage: Storage) -> StorageRoot:
        """Returns the same place, with its identity."""
        return StorageRoot(storage.id, self.location(storage), storage.identity)


def _with_known(target: ScopeTarget) -> ScopeTarget:
    """Adds what the state knows of the scope now."""
    if target.floor is None:
        return target
    return replace(target, known=floor_at(target.floor).known((target.mark,), RECENT_SECONDS).get(target.mark))


def live_tables(catalog: Catalog) -> list[Table]:
    """Returns the tables that are visible to callers, in order of creation."""
    return [table for table in catalog.tables.values() if not table.dropping]


def cold_tables(catalog: Catalog) -> list[Table]:
    """Returns those of them that have Delta tables: all but STREAM tables."""
    return [table for table in live_tables(catalog) if can(table.type, "cold tier")]


def find_table(catalog: Catalog, name: TableName) -> Table:
    """Returns the table of that name.

    Raises:
        NotFound: the table does not exist; the message names similar tables.
        FailedPrecondition: it is a pipeline's, and no object has given it a schema yet.
    """
    table = catalog.tables.get(name)
    if table is not None and not table.dropping:
        return table
    if name in catalog.blanks:
        raise FailedPrecondition(
            f"{name}: schema not materialized yet; the first object that its pipeline takes gives it one"
            f" (lakewarden ingest {name})"
        )
    near = sorted(str(other.name) for other in live_tables(catalog) if other.name.namespace == name.namespace)
    there = f"the namespace has {', '.join(near)}" if near else "the namespace has no table"
    raise TableNotFound(
        f"there is no table {name}: {there if name.namespace in catalog.namespaces else 'there is no such namespace'}"
    )


def _identity(uri: str, state: ObjectStore, catalog: CatalogStore, new_id: NewId, begins: Settings | None) -> Identity:
    """With `begins`, a warehouse that does not exist is made, which begins with these."""
    try:
        return read_identity(state)
    except Missing:
        if begins is None:
            raise NotFound(
                f"there is no warehouse at {uri}: name another place, or create one there (the first command that writes does,"
                " and --create)"
            ) from None
        delta_uri(uri)  # a place that cannot hold Delta tables is refused before anything is written there
        _check_nobodys(uri)
        return found_warehouse(uri, state, catalog, new_id, begins)


def _check_nobodys(uri: str) -> None:
    """Checks that the place is in no other warehouse.

    Raises:
        InUse: the place is inside a warehouse, which would treat this one as data of its tenants.
    """
    above = uri
    while (above := above.rpartition("/")[0]) and not above.endswith("/"):
        with suppress(Missing, StorageRefused):  # without permission to read there, this cannot be checked
            open_store(Location(above).below(STATE)).get(FILE)
            raise InUse(
                f"cannot create a warehouse at {uri}: it is inside the one at {above}; open that, or choose another place"
            )


@lru_cache(maxsize=256)
def _warn_of(uri: str, name: str, counts: str) -> None:
    """Once a process and setting."""
    _LOG.warning(
        "%s is %s in the warehouse %s, whatever lakewarden.toml and the environment say: remove it there, or change the"
        " warehouse's (lakewarden settings set %s VALUE)",
        name,
        counts,
        uri,
        name,
    )


@lru_cache(maxsize=64)
def state_store(uri: str) -> ObjectStore:
    """Opens the store of a task, once per worker process and not once per scope."""
    return open_store(Location(uri))
