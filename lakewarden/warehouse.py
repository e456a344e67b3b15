"""An open warehouse: where it lies, its identity, and the state objects under `_lakewarden/`."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial

from lakewarden.access.gate import require
from lakewarden.access.rights import can
from lakewarden.catalog.model import Catalog, Storage, Table
from lakewarden.catalog.store import CatalogStore
from lakewarden.catalog.users import own_storage
from lakewarden.clock import Clock, NewId
from lakewarden.connection import Location, StorageRoot
from lakewarden.delta.reading.column_cache import ColdCache, ColumnCache
from lakewarden.delta.reading.reopening import TableCache
from lakewarden.delta.uri import delta_uri
from lakewarden.errors import Conflict, InUse, InvalidArgument, NotFound, StorageRefused, StorageUnavailable
from lakewarden.locks.lock import LockFactory
from lakewarden.log.logs import Logs
from lakewarden.log.table_log import LogTerms, TableLog
from lakewarden.scope import Scope, TableName
from lakewarden.settings import Settings
from lakewarden.state.erasures import Erasures
from lakewarden.state.exports import Exports
from lakewarden.state.floor_entries import NOTHING, FloorPlace
from lakewarden.state.floors import RECENT_SECONDS, floor_at
from lakewarden.state.founding import FILE, FIRST_FORMAT, Identity, found_warehouse, read_identity
from lakewarden.state.scopes import ScopeRegistry
from lakewarden.state.user_storages import THE_TABLES, ScopePlaces
from lakewarden.storage.folders import Folders
from lakewarden.storage.location import canonical, join
from lakewarden.storage.objects import Missing, ObjectStore
from lakewarden.storage.open import open_store
from lakewarden.storage.paths import check_user, scope_path
from lakewarden.target import ScopeTarget

STATE = "_lakewarden"


@dataclass(frozen=True)
class Warehouse:
    """Handles to everything that one warehouse keeps; cheap to make, safe to share between threads."""

    uri: str
    id: str
    format: int
    """Of what is under `_lakewarden/`, and whether storages have identities and tables have floors (`state.founding`)."""
    state: ObjectStore
    catalog: CatalogStore
    registry: ScopeRegistry
    erasures: Erasures
    exports: Exports
    places: ScopePlaces
    logs: Logs
    cold: ColdCache
    settings: Settings
    clock: Clock
    new_id: NewId
    folders: Folders = field(default_factory=Folders)

    @classmethod
    def open(cls, uri: str, settings: Settings, clock: Clock, new_id: NewId) -> Warehouse:
        """Opens the warehouse, and makes it where there is none.

        Raises:
            StorageRefused, StorageUnavailable: the place can't be written or reached.
            Unsupported: no Delta table can be kept there.
            Corrupt: what lies there was made by something else.
        """
        uri = canonical(uri)
        state = open_store(Location(uri).below(STATE))
        catalog = CatalogStore(state, clock)
        erasures = Erasures(state)
        identity = _identity(uri, state, catalog, new_id)
        return cls(
            uri=uri,
            id=identity.id,
            format=identity.format,
            state=state,
            catalog=catalog,
            registry=ScopeRegistry(state, new_id),
            erasures=erasures,
            exports=Exports(state),
            places=ScopePlaces(state, erasures.mark),
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
        """The write log of the table: one object, for whoever asks. Appends that come together share segments."""

        def still_there() -> None:
            if find_table(self.catalog.read(), table.name).id != table.id:
                raise NotFound(f"{table.name} was dropped, and another table has its name by now: open it again")

        def terms() -> LogTerms:
            return LogTerms(
                self.settings.log,
                self.clock,
                self.new_id,
                self.erasures.mark,
                self.format,
                partial(self._settled, table),
                still_there,
            )

        return self.logs.of(table.log_id, terms)

    def target(self, catalog: Catalog, scope: Scope) -> ScopeTarget:
        """What work on one scope needs to know.

        Raises:
            NotFound: the table is not in the catalog.
            InvalidArgument: a user for a SHARED table, none for a USER table, or an impossible one.
            Unsupported: a STREAM table, whose rows lie in the log alone.
            Corrupt: the table's floor cannot be read.
        """
        table = find_table(catalog, scope.table)
        require(table, "cold tier", "flushes, maintenance, versions")
        check_scope(table, scope)
        return self.target_of(catalog, table, scope.user)

    def target_of(self, catalog: Catalog, table: Table, user: str | None) -> ScopeTarget:
        """The same of a table that may be on its way out."""
        target = self.bare_target(catalog, table, user)
        if target.floor is None:
            return target
        return replace(target, known=floor_at(target.floor).look(RECENT_SECONDS).known(target.mark))

    def bare_target(self, catalog: Catalog, table: Table, user: str | None) -> ScopeTarget:
        """The same without what is known of the scope's table, which nobody is asked for."""
        return self.target_on(self._storage_id(catalog, table, user), catalog, table, user)

    def target_on(self, storage_id: str, catalog: Catalog, table: Table, user: str | None) -> ScopeTarget:
        """The same as if the scope lay on that storage, of whose tables nothing is known."""
        scope = Scope(table.name, user)
        storage = catalog.storages[storage_id]
        maintenance = self.settings.maintenance
        hours = table.options.retention_hours
        return ScopeTarget(
            scope=scope,
            location=self.location(storage).below(_path(storage, table, scope)),
            schemas=table.schemas,
            app_id=f"lakewarden/{self.id}/{table.log_id}",
            compression=table.options.compression,
            target_file_size=table.options.target_file_size or maintenance.target_file_size,
            retention_hours=maintenance.retention_hours if hours is None else hours,
            root=self.root(storage),
            mark=self.erasures.mark(user or "") if self.identifies else "",
            floor=self.floor(table) if self.identifies else None,
        )

    def _storage_id(self, catalog: Catalog, table: Table, user: str | None) -> str:
        """Where a scope lies: where its first flush put it, and before that where it would be put now."""
        return self._apart(catalog, table, user) or table.options.storage_id

    def _apart(self, catalog: Catalog, table: Table, user: str | None) -> str | None:
        """The storage of a scope that lies on its user's own."""
        if user is None or not table.options.use_user_storage:
            return None
        place = self.places.of(table.id, user) or own_storage(catalog, user)
        return None if place == THE_TABLES else place

    def goes_along(self, catalog: Catalog, table: Table, user: str | None) -> bool:
        """Whether the scope lies where its table does, and so goes with it when that is moved."""
        return self._apart(catalog, table, user) is None

    def settle_place(self, catalog: Catalog, table: Table, user: str) -> None:
        """Decides for good where a scope lies; to be called before anything is written there."""
        if table.options.use_user_storage:
            self.places.decide(table.id, user, own_storage(catalog, user) or THE_TABLES)

    def check_open(self, catalog: Catalog, table: Table, user: str | None) -> None:
        """To be asked of a catalog that was read after the scope had been registered: so a move that goes unseen here sees
        the scope (docs/decisions/0014-moving-by-freezing.md).

        Raises:
            Conflict: the scope is frozen, or about to be, since its table is being moved.
        """
        if table.move is not None and table.move.phase == "closing" and self.goes_along(catalog, table, user):
            raise Conflict(
                f"{Scope(table.name, user)} is being moved to storage {table.move.target!r}: what is written stays in the log"
                f" until that is over; try again then, or end it (lakewarden move {table.name} --to {table.move.target})"
            )

    def base(self, storage: Storage) -> str:
        """Where a storage's tables lie. A base without a scheme or leading slash moves with the warehouse."""
        relative = "://" not in storage.base and not storage.base.startswith("/")
        return join(self.uri, storage.base) if relative else storage.base

    def location(self, storage: Storage) -> Location:
        """The same place, with the storage's own connection."""
        return Location(self.base(storage), storage.connection)

    def floor(self, table: Table) -> FloorPlace:
        """The table's floor in the warehouse's state."""
        return FloorPlace.in_state(Location(self.state.uri), table.id)

    def _settled(self, table: Table) -> int | None:
        """The last position that the table's storage knows to be settled; None where that is unknown."""
        if not (self.identifies and can(table.type, "cold tier")):
            return None
        catalog = self.catalog.read()
        storage = catalog.storages[catalog.tables.get(table.name, table).options.storage_id]
        try:
            position = floor_at(FloorPlace.on_storage(self.location(storage), table.id)).position()
        except (StorageUnavailable, StorageRefused):
            return None  # rows are taken while the storage is away
        return None if position == NOTHING else position

    def root(self, storage: Storage) -> StorageRoot:
        """The same place, with what identifies it."""
        return StorageRoot(storage.id, self.location(storage), storage.identity)


def check_scope(table: Table, scope: Scope) -> None:
    """Raises:
    InvalidArgument: a user for a SHARED table, none for another, or an impossible one.
    """
    if table.type == "SHARED" and scope.user is not None:
        raise InvalidArgument(f"{table.name} is a SHARED table: its rows belong to no user, so name none")
    if can(table.type, "a scope per user"):
        if scope.user is None:
            raise InvalidArgument(f"{table.name} is a {table.type} table: name the user")
        check_user(scope.user)


def _path(storage: Storage, table: Table, scope: Scope) -> str:
    template = storage.shared_template if table.type == "SHARED" else storage.user_template
    return scope_path(template, scope, storage.folds_case)


def live_tables(catalog: Catalog) -> list[Table]:
    """The tables that are there for everybody, in order of creation."""
    return [table for table in catalog.tables.values() if not table.dropping]


def cold_tables(catalog: Catalog) -> list[Table]:
    """Those of them that have Delta tables: all but STREAM ones."""
    return [table for table in live_tables(catalog) if can(table.type, "cold tier")]


def find_table(catalog: Catalog, name: TableName) -> Table:
    """Raises:
    NotFound: no such table; says which there are nearby.
    """
    table = catalog.tables.get(name)
    if table is not None and not table.dropping:
        return table
    near = sorted(str(other.name) for other in live_tables(catalog) if other.name.namespace == name.namespace)
    there = f"the namespace has {', '.join(near)}" if near else "the namespace has no table"
    raise NotFound(f"there is no table {name}: {there if name.namespace in catalog.namespaces else 'there is no such namespace'}")


def _identity(uri: str, state: ObjectStore, catalog: CatalogStore, new_id: NewId) -> Identity:
    try:
        return read_identity(state)
    except Missing:
        delta_uri(uri)  # a place at which no Delta table can be kept is refused before anything lies there
        _check_nobodys(uri)
        return found_warehouse(uri, state, catalog, new_id)


def _check_nobodys(uri: str) -> None:
    """Raises:
    InUse: the place lies in a warehouse, which would take this one for data of its tenants.
    """
    above = uri
    while (above := above.rpartition("/")[0]) and not above.endswith("/"):
        with suppress(Missing, StorageRefused):  # who may not read there has no way to know
            open_store(Location(above).below(STATE)).get(FILE)
            raise InUse(f"cannot make a warehouse at {uri}: it lies in the one at {above}; open that, or choose another place")


@lru_cache(maxsize=64)
def state_store(uri: str) -> ObjectStore:
    """The store of a task: opened once per worker process, not once per scope."""
    return open_store(Location(uri))
