"""What a job of the warehouse has around it besides the log: a catalog, the registry, floors, and a storage that may go away.

The registry and the floors are the real ones, over the stores of the world. Every process has its own memory of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, cast
from unittest.mock import patch

from greenlet import getcurrent

from lakewarden.base.connection import Location, StorageRoot
from lakewarden.base.scope import NOTHING, TableName
from lakewarden.base.setting_sections import FlushSettings
from lakewarden.base.settings import Settings
from lakewarden.catalog.model import Catalog, Move, Storage, Table, TableOptions, TableSchema
from lakewarden.catalog.state.floor import Floor
from lakewarden.catalog.state.floor_entries import FloorLocation, KnownState
from lakewarden.catalog.state.scope_registry import ScopeRegistry
from lakewarden.catalog.target import ScopeTarget
from lakewarden.errors import Corrupt, StorageUnavailable
from lakewarden.log.logs import Logs
from lakewarden.log.objects.cache import HeaderCache
from lakewarden.log.objects.view import read_view
from lakewarden.maintenance import maintain
from lakewarden.maintenance.flush import run as flush
from lakewarden.storage.objects import ObjectStore
from lakewarden.tables import floors, presence
from lakewarden.tables import warehouse as warehouse_module
from lakewarden.tables.warehouse import Warehouse
from tests.log.simulation import actors
from tests.log.simulation.light import rows_in
from tests.log.simulation.stores import SimObjects, Snapshot, open_table
from tests.log.simulation.stores import Table as SimTable
from tests.log.simulation.world import Broken, Unanswered, World

TABLE = TableName("sim", "rows")
_ID = "T"
_STORED = "tables"


def mark(user: str) -> str:
    """In place of a keyed hash."""
    return user.encode().hex().ljust(32, "0")


@dataclass
class Premises:
    """Those of one schedule's warehouse."""

    house: actors.Warehouse
    closing: bool = False
    """The table is being moved: its scopes are frozen."""
    changes: int = 0
    """How often the catalog was changed."""
    device: int = 1
    """What is mounted: perhaps another number each time."""
    shadow: dict[str, SimTable] | None = None
    """Tables in the empty place that is there while the storage is away."""
    stored: dict[str, bytes] = field(default_factory=dict)
    """Objects on the storage, the floor among them."""
    _floors: dict[tuple[object, FloorLocation], Floor] = field(default_factory=dict)

    # --- what the processes are given

    def warehouse(self) -> Warehouse:
        """The handle of one process."""
        state = cast("ObjectStore", replace(self.house.store, uri=f"{self._base}/_lakewarden"))
        return Warehouse(
            uri=self._base,
            id="W",
            format=2,
            state=state,
            catalog=cast("Any", _Catalogs(self)),
            registry=ScopeRegistry(state, self.house.world.new_id),
            erasures=cast("Any", _Marks()),
            exports=cast("Any", None),
            failed_checks=cast("Any", None),
            user_storages=cast("Any", None),
            logs=Logs(state),
            cold=cast("Any", None),
            settings=Settings(log=self.house.settings, flush=FlushSettings(attempts=4)),
            clock=self.house.moment,
            new_id=self.house.world.new_id,
        )

    @property
    def _base(self) -> str:
        return "s3://sim" if self.house.disk is None else "/sim"

    def catalog(self) -> Catalog:
        move = Move(_STORED, "elsewhere", "closing") if self.closing else None
        options, schema = TableOptions(storage_id=_STORED), TableSchema(1, (), ())
        table = Table(_ID, TABLE, "USER", options, (schema,), actors.LOG, self.house.moment(), move=move)
        templates = "{namespace}/{tableName}/{userId}", "{namespace}/{tableName}"
        storage = Storage(_STORED, "filesystem", _STORED, *templates, identity="here")
        return Catalog(version=1 + self.changes, storages={_STORED: storage}, tables={TABLE: table})

    def close(self, *, closing: bool) -> None:
        """Begins a move, or ends it."""
        self.closing, self.changes = closing, self.changes + 1

    def open(self, target: ScopeTarget) -> Snapshot:
        """The table at the scope's place, compared with what is known of it."""
        user, known = str(target.scope.user), target.known
        snapshot = open_table(self.house.world, self.table(user), partial(self.house.journal.applies, user))
        found = snapshot.opened
        if known is not None and (found.version < known.version or found.upto < known.watermark):
            raise Corrupt(f"the table of {user} is at version {found.version} and {found.upto}, and {known} was noted")
        return snapshot

    def table(self, user: str) -> SimTable:
        """At the scope's place, which is an empty one while the storage is away."""
        return self.house.tables[user] if self.shadow is None else self.shadow[user]

    @contextmanager
    def around(self) -> Iterator[None]:
        """The real operations stand on this while it lasts."""
        with ExitStack() as stack:
            for module, name, ours in (
                (floors, "floor_at", self._floor),
                (warehouse_module, "floor_at", self._floor),
                (floors, "at_once", _one_by_one),
                (presence, "confirm", self._confirm),
                (presence, "device_of", self._device_of),
                (presence, "open_store", _user_at),
                (presence, "CommitLog", partial(_Commits, self)),
                (flush, "sync", self._sync),
                (maintain, "sync", self._sync),
            ):
                stack.enter_context(patch.object(module, name, ours))
            yield

    def _floor(self, place: FloorLocation) -> Floor:
        """As the process that asks remembers it."""
        key = getcurrent(), place
        if key not in self._floors:
            store = self.house.store if place.prefix.startswith("known/") else _Storage(self)
            self._floors[key] = _Floor(cast("ObjectStore", store), place.prefix, self.house.world)
        return self._floors[key]

    def _confirm(self, root: StorageRoot) -> None:
        self.turn("confirm the storage")
        if self.shadow is not None:
            raise StorageUnavailable("the storage is not there")

    def _device_of(self, _: StorageRoot) -> int | None:
        return None if self.house.disk is None else self.device

    def _sync(self, _: Iterable[str]) -> None:
        self.turn("sync the tables")
        self.house.sync()

    def turn(self, what: str) -> None:
        try:
            self.house.world.turn(what)
        except Unanswered:
            raise StorageUnavailable(f"{what}: no answer") from None

    # --- what happens to them

    def goes_away(self) -> None:
        self.house.world.say("the storage goes away")
        self.house.away, self.house.was_away = True, True
        self.shadow = {user: SimTable() for user in self.house.users}

    def comes_back(self) -> None:
        self.house.world.say("the storage is there again")
        self.house.away, self.shadow, self.device = False, None, self.device + self.house.world.rng.choice((0, 1))

    # --- what must be true at any moment

    def check(self) -> None:
        """Rows that have left the log are known of, what is known is there, and whose table is there is registered."""
        world = self.house.world
        before, world.calm = world.calm, True
        try:
            registered = ScopeRegistry(cast("ObjectStore", self.house.store), world.new_id).users(_ID)
            pending = read_view(self.house.store, actors.LOG, HeaderCache()).pending
            for user, table in self.house.tables.items():
                if table.version >= 0 and user not in registered:
                    raise Broken(f"registered: the table of {user} is there, and no list of scopes has it")
                hot = pending[user].ranges if user in pending else ()
                self._check_known(user, table, {row.id for each in hot for row in rows_in(self.house.store, each)})
        finally:
            world.calm = before

    def _check_known(self, user: str, table: SimTable, hot: set[int]) -> None:
        seqs = self.house.journal.seqs
        gone = max((seqs[row] for row in table.applied - hot), default=NOTHING)
        copies = {"state": (self.house.store, "known")}
        if not self.house.was_away:
            copies["storage"] = (SimObjects(self.house.world, self.stored), ".lakewarden-floor")
        for copy, (store, prefix) in copies.items():
            known = Floor(cast("ObjectStore", store), f"{prefix}/{_ID}").look().known(mark(user)) or KnownState(
                NOTHING, NOTHING, 0
            )
            if known.watermark < gone:
                raise Broken(f"known: rows of {user} up to {gone >> 28} have left the log, the {copy} knows {known}")
            if known.version > table.version or known.watermark > table.upto:
                raise Broken(f"known: the {copy} knows more of {user} than there is: {known}")


class _Floor(Floor):
    """Its looks are recent by the world's time."""

    def __init__(self, store: ObjectStore, prefix: str, world: World) -> None:
        super().__init__(store, prefix, world.new_id)
        self._world = world

    def look(self, within: float = 0.0, monotonic: Callable[[], float] | None = None) -> Any:
        return super().look(within, monotonic or (lambda: float(self._world.now)))


@dataclass(frozen=True)
class _Storage:
    """The objects at the storage's place, as they are when they are asked for."""

    premises: Premises

    def __getattr__(self, name: str) -> Any:
        there = self.premises.stored if self.premises.shadow is None else {}
        return getattr(SimObjects(self.premises.house.world, there), name)


@dataclass(frozen=True)
class _Catalogs:
    """A catalog that is read in one request."""

    premises: Premises

    def read(self) -> Catalog:
        self.premises.turn("read the catalog")
        return self.premises.catalog()


@dataclass(frozen=True)
class _Commits:
    """Those of the table at a user's place."""

    premises: Premises
    user: str

    def has(self, version: int) -> bool:
        self.premises.turn(f"look for version {version} of {self.user}")
        return self.premises.table(self.user).version >= version


def _user_at(location: Location) -> str:
    return location.uri.rpartition("/")[2]


class _Marks:
    def mark(self, user: str) -> str:
        return mark(user)

    def derived_key(self, *_: str) -> str:
        return ""


def _one_by_one(work: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
    """Without threads: an actor is one already."""
    return [work(item) for item in items]
