"""Objects that say what happened, and that an erasure changes: jobs, the audit log, plans.

A change is a new object beside the old one, with a number behind its name, created only if it is absent; then the old one is
emptied. So who changes an object at the same time changes what the other made of it, and who slept between the reading
and the change brings nothing back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from functools import partial
from typing import TypeVar

import msgspec

from lakewarden.base.clock import to_millis
from lakewarden.storage.objects import AlreadyThere, Missing, ObjectStore, StoredObject

T = TypeVar("T")

_MARK = "~"
_DIGITS = 6


def first_of(key: str) -> str:
    """The key of the object that was there first."""
    return key.partition(_MARK)[0]


def newest(listing: Iterable[StoredObject]) -> list[StoredObject]:
    """What counts of each object, in the order of a listing. Empty objects, and what is left of removed ones, are left out."""
    found, there = dict[str, StoredObject](), set[str]()
    for stored in listing:
        if _MARK not in stored.key:
            there.add(stored.key)
        if stored.size:
            found[first_of(stored.key)] = stored  # listed in order, so the last one stays
    # A change without the object that was there first is what a process left that slept through its removal.
    return [stored for first, stored in found.items() if first in there]


def content(store: ObjectStore, key: str) -> bytes | None:
    """The bytes of what counts, from `key` on, which a listing showed; None where it was removed meanwhile."""
    while True:
        try:
            data = store.get(key)
        except Missing:
            return None
        if data:
            return data
        key = _following(key)


def rewrite(store: ObjectStore, key: str, change: Callable[[bytes], bytes]) -> None:
    """Changes an object, from `key` on, which a listing showed as what counts; again where others changed it meanwhile.

    Args:
        change: of bytes to bytes that are not empty; the same ones where nothing is to change.
    """
    while True:
        try:
            data = store.get(key)
        except Missing:
            return  # removed meanwhile, or the last one is empty
        after = _following(key)
        # An empty object was replaced: what replaced it stands behind it, and is what has to be changed.
        made = change(data) if data else data
        if made != data:
            # First the new object, then the old one is emptied: in between a reader sees the newer of two, and never none
            # (docs/decisions/0104-an-erasure-hides-a-scope-at-once.md).
            _create(store, after, made)
        elif not store.has(after):
            return
        if data:
            store.put(key, b"")
        # On to the next: another process may have created it from what was there before, with the id still in it.
        key = after


def rewrite_all(store: ObjectStore, below: str, change: Callable[[str, bytes], bytes], found: Callable[[int], None]) -> None:
    """Changes what counts of all objects there.

    Args:
        change: as for `rewrite`, by the object's key.
        found: called with the number of those that change, before the first does: an attempt that dies in between must not count
            fewer when it is repeated.
    """
    listing = store.list(below)
    contents = ((stored.key, content(store, stored.key)) for stored in newest(listing))
    changed = [key for key, data in contents if data is not None and change(key, data) != data]
    found(len(changed))
    for key in changed:
        rewrite(store, key, partial(change, key))
    empty_replaced(store, listing)


def changed(read: Callable[[str, bytes], T], change: Callable[[T], T], key: str, data: bytes) -> bytes:
    """What is kept after a change of the value that it is, for `rewrite`."""
    before = read(key, data)
    after = change(before)
    return data if after == before else msgspec.json.encode(after)


def empty_replaced(store: ObjectStore, listing: Iterable[StoredObject]) -> None:
    """Empties what was replaced, where a process died before it did."""
    listing = [*listing]
    kept = {stored.key for stored in newest(listing)}
    for stored in listing:
        if stored.size and stored.key not in kept:
            store.put(stored.key, b"")


def _create(store: ObjectStore, key: str, data: bytes) -> None:
    """Creates the object, unless another change came first, or what is changed was removed meanwhile."""
    try:
        store.create(key, data)
    except AlreadyThere:
        return
    # The object expired, or was removed, between the reading and the change: its successor must not bring it back.
    if not store.has(first_of(key)):
        store.delete([key])


def _following(key: str) -> str:
    first, _, number = key.partition(_MARK)
    return f"{first}{_MARK}{int(number or 0) + 1:0{_DIGITS}d}"


# Keys that a listing shows newest first: they begin with the moment, counted backwards.
_LAST_MILLIS = 10**14
"""From which milliseconds are counted: the year 5138."""


def backwards(moment: datetime) -> str:
    return f"{_LAST_MILLIS - to_millis(moment):014d}"
