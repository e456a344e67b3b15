"""The owner marker: which warehouse a storage's place belongs to, and which storage it is.

Two warehouses that wrote to one place would each treat the other's tables as their own. A place whose disk is not mounted,
or whose bucket was recreated, would look like an empty storage. So a marker at the place names the warehouse and holds
the storage's identity: a random id that the catalog also holds.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf

import msgspec

from lakewarden.base.connection import StorageRoot
from lakewarden.errors import InUse, LakewardenError, StorageRefused, StorageUnavailable
from lakewarden.storage.disk import sync
from lakewarden.storage.location import local_path
from lakewarden.storage.objects import AlreadyThere, Missing, ObjectStore
from lakewarden.storage.open import open_store
from lakewarden.storage.sums import kept_as

MARKER = ".lakewarden-owner"

RECENT_SECONDS = 60.0
"""The oldest confirmation after which a scope without a table still counts as never flushed."""


@dataclass(frozen=True)
class StorageOwner:
    """The contents of a marker. `identity` is empty when a warehouse of format 1 wrote it."""

    warehouse: str
    identity: str = ""


def owner_of(store: ObjectStore) -> StorageOwner | None:
    """Reads the marker; None when the place has none.

    Raises:
        Corrupt: the object of that name is not a marker.
    """
    try:
        data = store.get(MARKER)
    except Missing:
        return None
    # A marker of format 1 is the warehouse's id alone.
    if not data.startswith(b"{"):
        return StorageOwner(data.decode(errors="replace"))
    return kept_as(StorageOwner, data, f"{store.uri}/{MARKER} does not name an owner")


def claim(store: ObjectStore, wanted: StorageOwner) -> StorageOwner:
    """Marks the place if it has no marker yet. Returns the marker's contents, which may be another warehouse's.

    A marker of the same warehouse without an identity gets the given one.
    """
    try:
        store.create(MARKER, _encoded(wanted))
    except AlreadyThere:
        found = owner_of(store) or wanted
        # An identity is never replaced: the catalog holds it, and another one would make the place a stranger.
        if found.warehouse != wanted.warehouse or found.identity or not wanted.identity:
            return found
        # The one overwrite of a marker: `lakewarden upgrade` gives an identity to a place that has none
        # (docs/decisions/0020-floors-and-identity.md).
        store.put(MARKER, _encoded(wanted))
        sync({store.uri})
    return wanted


def claim_for(store: ObjectStore, wanted: StorageOwner) -> str:
    """Marks the place as this warehouse's, and returns its identity. An earlier identity of the same warehouse stays.

    Raises:
        InUse: the place belongs to another warehouse.
    """
    found = claim(store, wanted)
    if found.warehouse != wanted.warehouse:
        raise InUse(f"{store.uri} belongs to warehouse {found.warehouse}; choose another place for this one")
    return found.identity


def check_same(store: ObjectStore, expected: StorageOwner) -> None:
    """Checks that a place reached with a new connection is the one that this warehouse claimed.

    Raises:
        InUse: the place has no marker, or another one.
    """
    found = owner_of(store)
    if found != expected:
        owner = "no warehouse" if found is None else f"warehouse {found.warehouse}"
        raise InUse(f"{store.uri} with the new connection belongs to {owner}: it is not the place where the tables are")


@contextmanager
def naming(root: StorageRoot | None) -> Iterator[None]:
    """Where the storage fails the block, the message names it."""
    try:
        yield
    except (StorageUnavailable, StorageRefused) as error:
        raise named_by(root, error) from error


def named_by(root: StorageRoot | None, error: LakewardenError) -> LakewardenError:
    """The error; where it is the storage's, with the storage's name in the message."""
    if root is None or not isinstance(error, (StorageUnavailable, StorageRefused)):
        return error
    name = f"storage {root.storage_id!r}"
    return error if name in error.message else type(error)(f"{name}: {error.message}")


_CONFIRMED: dict[StorageRoot, float] = {}
"""When each storage was last confirmed, by a clock of this process."""


def confirm(root: StorageRoot, within: float = 0.0, monotonic: Callable[[], float] = time.monotonic) -> None:
    """Checks that the place is the storage that the catalog means. A warehouse of format 1 has nothing to compare.

    Args:
        within: seconds for which an earlier confirmation by this process is enough; 0 always looks.

    Raises:
        StorageUnavailable: the place has no marker, or another one, or cannot be reached.
        StorageRefused: the store refuses to show it.
    """
    now = monotonic()
    # Where absence is taken for emptiness a minute's old look is enough; before and behind the writes of a flush it is not
    # (docs/decisions/0020-floors-and-identity.md).
    if not root.identity or (within and now - _CONFIRMED.get(root, -inf) <= within):
        return
    with naming(root):
        found = owner_of(open_store(root.location))
    # An unmounted disk or a bucket that was made again has no marker: what it lacks was not deleted.
    if found is None or found.identity != root.identity:
        there = "it has no marker" if found is None else "it has the marker of another one"
        raise StorageUnavailable(
            f"storage {root.storage_id!r} at {root.location} is not the one that this warehouse uses ({there}):"
            " is it mounted, and is it the same bucket?"
        )
    _CONFIRMED[root] = now


def device_of(root: StorageRoot) -> int | None:
    """Returns the number of the device that a directory is on; None when the directory does not exist."""
    path = local_path(root.location.uri)
    try:
        # A flush compares it again behind its sync, beside the marker (docs/decisions/0020-floors-and-identity.md).
        return None if path is None else os.stat(path).st_dev
    except FileNotFoundError:
        return None


def _encoded(owner: StorageOwner) -> bytes:
    return msgspec.json.encode(owner) if owner.identity else owner.warehouse.encode()
