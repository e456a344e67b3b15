"""Probes a place: whether it can be written, read, listed and deleted from, and whether it distinguishes `A` from `a`."""

from __future__ import annotations

from dataclasses import dataclass

from lakewarden.clock import NewId
from lakewarden.errors import StorageRefused
from lakewarden.storage.objects import Missing, ObjectStore

PROBES = ".lakewarden-probe"
"""The directory of all probe objects. They share one, because a disk keeps the directories of deleted ones."""


@dataclass(frozen=True)
class Probe:
    """The traits of a place. `folds_case`: it treats `A` and `a` as one name."""

    folds_case: bool


def probe(store: ObjectStore, new_id: NewId) -> Probe:
    """Writes, reads, lists and deletes an object of its own under `PROBES`.

    Raises:
        StorageRefused, StorageUnavailable: one of the four does not work; the message says which.
    """
    place = f"{PROBES}/{new_id()}"
    key, twin, content = f"{place}-a", f"{place}-A", b"probe"
    store.create(key, content)
    try:
        if store.get(key) != content:
            raise StorageRefused(f"{store.uri} returns other bytes than were written")
        if key not in {stored.key for stored in store.list(PROBES)}:
            raise StorageRefused(f"{store.uri} does not list what was just written")
        return Probe(folds_case=_present(store, twin))
    finally:
        store.delete([key])


def _present(store: ObjectStore, key: str) -> bool:
    try:
        store.get(key)
    except Missing:
        return False
    return True
