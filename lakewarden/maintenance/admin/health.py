"""The health of a storage: tries each of the four requests that it has to serve, times them, and measures what it holds."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from lakewarden.catalog.model import Storage
from lakewarden.errors import LakewardenError, StorageRefused
from lakewarden.storage.location import local_path
from lakewarden.storage.objects import Missing, ObjectStore
from lakewarden.storage.open import open_store
from lakewarden.storage.owner import confirm
from lakewarden.storage.probe import PROBES, refuse_second
from lakewarden.tables.warehouse import Warehouse

Status = Literal["healthy", "degraded", "unreachable"]
_CONTENT = b"probe"


@dataclass(frozen=True)
class StorageHealth:
    """One row of `check --extended`. `latency_ms` is that of the whole trial.

    `used_bytes` are those of the objects of the storage, `total_bytes` those of its disk; None where not requested, or
    where there is no bound.
    """

    storage_id: str
    status: Status
    readable: bool
    writable: bool
    listable: bool
    deletable: bool
    latency_ms: int
    total_bytes: int | None
    used_bytes: int | None
    error: str | None
    tested_at: datetime


def health(warehouse: Warehouse, storage: Storage, *, extended: bool) -> StorageHealth:
    """Tries the storage; a failure is a value in the result, not an error."""
    began = time.monotonic()
    trial = _Trial(open_store(warehouse.location(storage)), f"{PROBES}/{warehouse.new_id()}-a")
    identified = trial.passes(lambda: confirm(warehouse.root(storage)))
    writable = identified and trial.passes(trial.write)
    readable = writable and trial.passes(trial.read)
    # where nothing answers, each of the others would wait as long again
    listable = (writable or trial.refused) and trial.passes(trial.list)
    deletable = (writable or trial.refused) and trial.passes(trial.delete)
    done = [readable, writable, listable, deletable]
    return StorageHealth(
        storage.id,
        "healthy" if all(done) else "degraded" if any(done) else "unreachable",
        readable,
        writable,
        listable,
        deletable,
        latency_ms=round((time.monotonic() - began) * 1000),
        total_bytes=_disk_bytes(warehouse.base(storage)) if extended else None,
        used_bytes=trial.used_bytes() if extended and listable else None,
        error=trial.error,
        tested_at=warehouse.clock(),
    )


class _Trial:
    """The four steps on one object of its own, and the first thing that went wrong."""

    def __init__(self, store: ObjectStore, key: str) -> None:
        self._store = store
        self._key = key
        self.error: str | None = None
        self.refused = False

    def passes(self, step: Callable[[], None]) -> bool:
        try:
            step()
        except LakewardenError as error:
            self.error = self.error or error.message
            self.refused = isinstance(error, StorageRefused)
            return False
        return True

    def write(self) -> None:
        self._store.create(self._key, _CONTENT)
        refuse_second(self._store, self._key)

    def read(self) -> None:
        try:
            found = self._store.get(self._key)
        except Missing:
            found = b""
        if found != _CONTENT:
            raise StorageRefused(f"{self._store.uri} returns other bytes than were written")

    def list(self) -> None:
        self._store.list(PROBES)

    def delete(self) -> None:
        self._store.delete([self._key])

    def used_bytes(self) -> int:
        return sum(stored.size for stored in self._store.list(""))


def _disk_bytes(base: str) -> int | None:
    path = local_path(base)
    return None if path is None or not path.exists() else shutil.disk_usage(path).total
