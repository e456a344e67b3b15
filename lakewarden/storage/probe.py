"""Probes a place: whether it can be written, read, listed and deleted from, whether it creates an object only once, and whether
it distinguishes `A` from `a`."""

from __future__ import annotations

import hashlib
import os

from lakewarden.base.clock import NewId
from lakewarden.base.connection import Location
from lakewarden.base.threads import at_once
from lakewarden.errors import StorageRefused, UnconditionalStore
from lakewarden.storage.location import local_path
from lakewarden.storage.objects import AlreadyThere, Missing, ObjectStore
from lakewarden.storage.options import address_of

PROBES = ".lakewarden-probe"
"""The directory of all probe objects. They share one, because a disk keeps the directories of deleted ones."""

_PROBED = "probed"
_CONTENT = b"probe"
_AT_ONCE = 6
"""How many create one key at the same moment."""


def probe(store: ObjectStore, new_id: NewId) -> bool:
    """Writes, reads, lists and deletes objects of its own under `PROBES`, and creates each of two a second time. Returns whether
    the place folds case: it treats `A` and `a` as one name.

    Raises:
        UnconditionalStore: an object was created twice.
        StorageRefused, StorageUnavailable: another request does not work; the message says which.
    """
    place = f"{PROBES}/{new_id()}"
    key, twin, race = f"{place}-a", f"{place}-A", f"{place}-b"
    store.create(key, _CONTENT)
    try:
        if store.get(key) != _CONTENT:
            raise StorageRefused(f"{store.uri} returns other bytes than were written")
        if key not in {stored.key for stored in store.list(PROBES)}:
            raise StorageRefused(f"{store.uri} does not list what was just written")
        refuse_second(store, key)
        # A store that looks first and writes then passes the test one by one, and fails only where several create at once
        # (docs/decisions/0110-stores-that-ignore-conditions.md).
        _race(store, race)
        # By reading `A` where `a` was written: nothing else tells it of every file system and store.
        return _present(store, twin)
    finally:
        store.delete([key, race])


def refuse_second(store: ObjectStore, key: str) -> None:
    """Tries to create an object that is there.

    Raises:
        UnconditionalStore: it can be created again.
    """
    if _created(store, key, _CONTENT):
        raise _unconditional(store)


def mark_probed(state: ObjectStore, place: Location) -> str | None:
    """Notes that the store of a warehouse's state was probed at the address where it is reached now. Returns the key of the note;
    None where it is there already.

    Raises:
        StorageRefused, StorageUnavailable: as `ObjectStore.create`.
    """
    address = address_of(place, os.environ)
    key = f"{_PROBED}/{hashlib.sha256(address.encode()).hexdigest()[:32]}"
    return key if _created(state, key, address.encode()) else None


def probe_at_open(state: ObjectStore, place: Location, new_id: NewId) -> None:
    """Probes the store of a warehouse's state when it is opened at this address for the first time. Later it tries to make the
    note of that again: two requests, and a store that ignores conditions shows itself. A directory is not probed here.

    Whoever may not write there opens the warehouse for reading, and is not held up.

    Raises:
        UnconditionalStore: the store ignores conditions.
        StorageUnavailable: it cannot be reached.
    """
    # A directory's link is the kernel's, which keeps to the condition.
    if local_path(place.uri) is not None:
        return
    try:
        # If the note is there, this creation has just failed as it should: that is the probe
        # (docs/decisions/0110-stores-that-ignore-conditions.md).
        if (note := mark_probed(state, place)) is not None:
            _probe_or_forget(state, note, new_id)
    # It is a refusal too, so it has to come before the branch that lets readers pass.
    except UnconditionalStore:
        raise
    except StorageRefused:
        return


def _probe_or_forget(state: ObjectStore, key: str, new_id: NewId) -> None:
    try:
        probe(state, new_id)
    except BaseException:
        state.delete([key])  # else the next one would take it for probed
        raise


def _race(store: ObjectStore, key: str) -> None:
    bodies = [f"probe {number}".encode() for number in range(_AT_ONCE)]
    created = at_once(lambda body: _created(store, key, body), bodies)
    won = [body for body, done in zip(bodies, created, strict=True) if done]
    # One winner whose bytes are not there would be as bad: the store has answered one and kept another.
    if len(won) != 1 or store.get(key) != won[0]:
        raise _unconditional(store)


def _created(store: ObjectStore, key: str, content: bytes) -> bool:
    try:
        store.create(key, content)
    except AlreadyThere:
        return False
    return True


def _unconditional(store: ObjectStore) -> UnconditionalStore:
    return UnconditionalStore(
        f"{store.uri} created an object that was there already: it ignores the condition of a write (If-None-Match: *), so that"
        " two writers would overwrite each other's rows; choose a store that keeps to it, or mend the proxy in front of it"
    )


def _present(store: ObjectStore, key: str) -> bool:
    try:
        store.get(key)
    except Missing:
        return False
    return True
