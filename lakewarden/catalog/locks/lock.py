"""The catalog lock: one holder at a time for a drop, a schema change, or a change of many objects (FLIP-188, CatalogLock).

It has two parts: a *turn*, which says who is next (`catalog.locks.turns`), and a *lease* in the catalog with a fencing token
(`catalog.changes.leases`), which ensures that a holder paused past its lease can no longer commit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TypeVar

from lakewarden.base.clock import NewId, random_id, system_clock
from lakewarden.base.connection import Location
from lakewarden.base.settings import LockSettings
from lakewarden.catalog.changes.leases import give_back, grant, renew
from lakewarden.catalog.locks.renewing import renewing
from lakewarden.catalog.locks.turns import NamedTurns, turns_of
from lakewarden.catalog.model import Lease
from lakewarden.catalog.store import CatalogStore
from lakewarden.errors import Conflict, FailedPrecondition, StorageUnavailable
from lakewarden.storage.open import open_store

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


class CatalogLock:
    """Locks of one warehouse. Safe for threads. `with` closes it."""

    def __init__(
        self,
        catalog: CatalogStore,
        turns: NamedTurns,
        settings: LockSettings,
        *,
        new_id: NewId = random_id,
        monotonic: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._catalog = catalog
        self._turns = turns
        self._settings = settings
        self._new_id = new_id
        self._monotonic = monotonic
        self._pause = pause
        self._closed = False

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
        until = self._monotonic() + self._settings.acquire_seconds
        with self._turns.turn(name, self._settings.acquire_seconds):
            lease = self._acquire(name, until)
            with renewing(name, lease.seconds, lambda: self._catalog.change(renew(lease))):
                try:
                    yield lease
                except BaseException:
                    with suppress(Conflict, StorageUnavailable):  # the error of the work says more
                        self._catalog.change(give_back(lease))
                    raise
            self._catalog.change(give_back(lease))

    def _acquire(self, name: str, until: float) -> Lease:
        """Takes the lease once it is free, or once its holder has not renewed it for its whole duration."""
        owner, pause = self._new_id(), _FIRST_PAUSE
        seen, since = None, self._monotonic()
        while True:
            held = self._catalog.read().leases.get(name)
            if held != seen:
                seen, since = held, self._monotonic()
            if held is None or self._turns.exclusive or self._monotonic() - since >= held.seconds:
                with suppress(Conflict):
                    return self._catalog.change(grant(name, owner, self._settings.lease_seconds, held)).leases[name]
            if self._monotonic() >= until:
                holder = held.owner if held else "another waiting process"
                raise Conflict(
                    f"could not lock {name} within {self._settings.acquire_seconds:g} seconds: {holder} holds it; try again"
                )
            self._pause(min(pause, max(0.0, until - self._monotonic())))
            pause = min(2 * pause, _LONGEST_PAUSE, self._settings.lease_seconds / 3)
