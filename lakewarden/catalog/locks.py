"""The catalog lock: one holder at a time for a drop, a schema change, or a change of many objects (FLIP-188, CatalogLock).

It has two parts: a *turn*, which says who is next (`catalog.locks`), and a *lease* in the catalog with a fencing token
(`catalog.changes.leases`), which ensures that a holder paused past its lease can no longer commit.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Literal, TypeVar

from lakewarden.base.clock import NewId, random_id, system_clock
from lakewarden.base.connection import Location
from lakewarden.base.setting_sections import LockSettings
from lakewarden.catalog.changes.leases import give_back, grant, renew
from lakewarden.catalog.heartbeat import BeatThread
from lakewarden.catalog.model import Lease
from lakewarden.catalog.store import CatalogStore
from lakewarden.errors import Conflict, FailedPrecondition, InvalidArgument, StorageUnavailable
from lakewarden.storage.open import open_store

if TYPE_CHECKING:
    import psycopg2.extensions


# Decides who may next try for a lock: anyone, one thread of this process, or one session of a Postgres server.
TurnKind = Literal["objects", "process", "postgres"]

_PAUSE = 0.1


def turns_of(kind: TurnKind, scope: str) -> NamedTurns:
    """Returns the turns of this kind. `scope` keeps the lock names of warehouses apart."""
    match kind:
        case "objects":
            return ObjectTurns()
        case "process":
            return ProcessTurns(scope)
        case "postgres":
            return PostgresTurns(scope)


class ObjectTurns:
    """No turns: the leases in the warehouse alone decide. Needs no server, on any store."""

    exclusive = False
    """Whether the holder of the turn is alone: a lease that still exists was then left by a dead process."""

    @contextmanager
    def turn(self, name: str, seconds: float) -> Iterator[None]:  # the shape of all
        """Holds the turn while the block runs.

        Raises:
            Conflict: the turn did not come within `seconds`.
            StorageUnavailable: the server can't be reached.
        """
        yield


_process: dict[tuple[str, str], threading.Lock] = {}
_process_guard = threading.Lock()


class ProcessTurns:
    """Turns for a warehouse that only one process uses."""

    exclusive = True

    def __init__(self, scope: str) -> None:
        self._scope = scope

    @contextmanager
    def turn(self, name: str, seconds: float) -> Iterator[None]:
        with _process_guard:
            lock = _process.setdefault((self._scope, name), threading.Lock())
        if not lock.acquire(timeout=seconds):
            raise Conflict(f"could not lock {name} within {seconds:g} seconds: another thread holds it; try again")
        try:
            yield
        finally:
            lock.release()


class PostgresTurns:
    """Advisory locks of a Postgres server, which frees them when a holder's connection ends.

    The server is taken from libpq's own environment (PGHOST, PGDATABASE, PGUSER, PGPASSWORD, PGSERVICE, …).
    """

    exclusive = True

    def __init__(self, scope: str) -> None:
        self._scope = scope

    @contextmanager
    def turn(self, name: str, seconds: float) -> Iterator[None]:
        connection = _connect()
        try:
            _wait(connection, _key(f"{self._scope}\0{name}"), name, seconds)
            yield
        finally:
            # Ends the advisory lock too, also where the block raised.
            connection.close()


NamedTurns = ObjectTurns | ProcessTurns | PostgresTurns
"""Gives turns by name. The lease in the catalog ensures safety; a turn only saves waiting for it to expire."""


def _connect() -> psycopg2.extensions.connection:
    try:
        import psycopg2  # only needed for locks of kind postgres
    except ImportError as error:
        raise InvalidArgument("locks of kind postgres need psycopg2: install lakewarden[postgres]") from error
    try:
        connection = psycopg2.connect("")
    except psycopg2.OperationalError as error:
        raise StorageUnavailable(f"cannot reach the Postgres server of the locks: {str(error).strip()}") from error
    connection.autocommit = True
    return connection


def _wait(connection: psycopg2.extensions.connection, key: int, name: str, seconds: float) -> None:
    until = time.monotonic() + seconds
    with connection.cursor() as cursor:
        while True:
            # Tries instead of waiting in the server, so that `seconds` bounds it.
            cursor.execute("SELECT pg_try_advisory_lock(%s)", (key,))
            if cursor.fetchone() == (True,):
                return
            if time.monotonic() >= until:
                raise Conflict(f"could not lock {name} within {seconds:g} seconds: another session holds it; try again")
            time.sleep(_PAUSE)


def _key(text: str) -> int:
    """Returns a signed 64-bit number, as Postgres takes it."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big", signed=True)


# Renews a lease while its holder lives, from a thread.
@contextmanager
def renewing(name: str, seconds: float, renew: Callable[[], object]) -> Iterator[None]:
    """Calls `renew` three times in a lease's period, until the block ends or it raises `Conflict`: the lease is lost, which the
    next change under it then reports."""

    def beat() -> bool:
        try:
            renew()
        except Conflict:
            return False
        return True

    # Three times in a period: one beat that fails, or comes late, loses nothing.
    with BeatThread(f"lease-{name}", beat, seconds / 3):
        yield


class LeaseWatch:
    """Watches a lease for who waits for it. No clock is compared with another machine's: a lease counts as expired once it was
    seen for its whole duration without a renewal."""

    def __init__(self, catalog: CatalogStore, name: str, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._catalog = catalog
        self._name = name
        self._monotonic = monotonic
        self._since = monotonic()
        self.held: Lease | None = None
        """As of the last look."""
        self.lives = False
        """Whether it was renewed, or changed hands, between two looks."""

    def look(self) -> Lease | None:
        now = self._catalog.read().leases.get(self._name)
        # A renewal raises the beat, so a lease that lives is never twice the same; the wait begins anew.
        if now != self.held:
            self.lives = self.held is not None and now is not None
            self.held, self._since = now, self._monotonic()
        return now

    @property
    def is_free(self) -> bool:
        # A clock of the holder's machine has no say in it: only what was seen here, for the lease's whole duration
        # (docs/decisions/0013-leases-in-the-catalog.md).
        return self.held is None or self._monotonic() - self._since >= self.held.seconds


T = TypeVar("T")

_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 8.0


@dataclass(frozen=True)
class LockFactory:
    """Creates the lock in any process; picklable for Spark's tasks. `state_uri` is the warehouse's `_lakewarden`."""

    state_uri: str
    settings: LockSettings

    def create(self) -> CatalogLock:
        store = CatalogStore(open_store(Location(self.state_uri)), system_clock)
        return CatalogLock(store, turns_of(self.settings.kind, self.state_uri), self.settings)


@dataclass(eq=False, repr=False)
class CatalogLock:
    """Locks of one warehouse. Safe for threads. `with` closes it."""

    catalog: CatalogStore
    turns: NamedTurns
    settings: LockSettings
    _: KW_ONLY
    new_id: NewId = random_id
    monotonic: Callable[[], float] = time.monotonic
    pause: Callable[[float], None] = time.sleep
    _closed: bool = False

    def __enter__(self) -> CatalogLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends its use: it locks nothing more. What it runs goes on, under its lock. May be called again."""
        self._closed = True

    def run_with_lock(self, database: str, table: str, work: Callable[[], T]) -> T:
        """Runs the work while no other holder runs anything under the same lock.

        Raises:
            Conflict: the lock could not be acquired in time, or was lost while the work ran.
            FailedPrecondition: it is closed; nothing ran.
            Whatever the work itself raises.
        """
        with self.hold(database, table):
            return work()

    @contextmanager
    def hold(self, database: str, table: str) -> Iterator[Lease]:
        """Yields the lease, renewed while the block runs. Change the catalog through `catalog.changes.leases.under` it.

        Raises:
            Conflict, FailedPrecondition: as `run_with_lock`.
        """
        if self._closed:
            raise FailedPrecondition(f"cannot lock {database}.{table}: this lock was closed; its factory creates another one")
        name = f"{database}.{table}"
        until = self.monotonic() + self.settings.acquire_seconds
        with self.turns.turn(name, self.settings.acquire_seconds):
            lease = self._acquire(name, until)
            with renewing(name, lease.seconds, lambda: self.catalog.change(renew(lease))):
                try:
                    yield lease
                except BaseException:
                    with suppress(Conflict, StorageUnavailable):  # the error of the work says more
                        self.catalog.change(give_back(lease))
                    raise
            self.catalog.change(give_back(lease))

    def _acquire(self, name: str, until: float) -> Lease:
        """Takes the lease once it is free, or once its holder has not renewed it for its whole duration."""
        owner, pause = self.new_id(), _FIRST_PAUSE
        watch = LeaseWatch(self.catalog, name, self.monotonic)
        while True:
            held = watch.look()
            # With an exclusive turn no other process can be at work: a lease that still stands was left by a dead one
            # (docs/decisions/0013-leases-in-the-catalog.md).
            if self.turns.exclusive or watch.is_free:
                with suppress(Conflict):
                    return self.catalog.change(grant(name, owner, self.settings.lease_seconds, held)).leases[name]
            if self.monotonic() >= until:
                holder = held.owner if held else "another waiting process"
                raise Conflict(
                    f"could not lock {name} within {self.settings.acquire_seconds:g} seconds: {holder} holds it; try again"
                )
            self.pause(min(pause, max(0.0, until - self.monotonic())))
            # Never longer than a third of the lease: a look has to see each renewal, or a living lease would seem quiet.
            pause = min(2 * pause, _LONGEST_PAUSE, self.settings.lease_seconds / 3)
