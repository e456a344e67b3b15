"""What Lakewarden asks of a store: create if absent, read, list, delete. Nothing else is needed, so any store will do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


class Missing(Exception):
    """The object is not there. Rooms above turn it into an error that names what they looked for."""


class AlreadyThere(Exception):
    """A conditional creation lost: the key is taken."""


@dataclass(frozen=True)
class StoredObject:
    """One line of a listing. `key` is relative to the store's root; `size` in bytes."""

    key: str
    size: int
    modified: datetime


class ObjectStore(Protocol):
    """Objects under one root, by `/`-separated keys.

    Every method raises `StorageUnavailable` or `StorageRefused` (lakewarden.errors) when the store fails, naming the
    store and what was asked.
    """

    @property
    def uri(self) -> str:
        """The root, as people write it. Never holds a credential."""
        ...

    def create(self, key: str, data: bytes) -> None:
        """Makes the object durable, only if the key is absent; raises `AlreadyThere`. Atomic: nobody sees a part.

        A `StorageUnavailable` from here means that the outcome is unknown: the object may be there. `NotDurable` is one: the
        object may be there, and may be gone after a crash of the machine.
        """
        ...

    def confirm(self, key: str) -> None:
        """What is seen under the key is durable when this returns: whoever made it may not be that far yet.

        Raises `NotDurable`, and `Missing` where nothing is there.
        """
        ...

    def put(self, key: str, data: bytes) -> None:
        """Writes or replaces, durably: whoever looks, also after a crash, finds the old or the new bytes, whole."""
        ...

    def get(self, key: str) -> bytes:
        """Raises `Missing`."""
        ...

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Bytes `[start, start + length)`, fewer at the object's end. Raises `Missing`."""
        ...

    def list(self, prefix: str) -> list[StoredObject]:
        """All objects whose key starts with `prefix + "/"` (recursive), sorted by key. An absent prefix is empty."""
        ...

    def delete(self, keys: Iterable[str]) -> None:
        """Removes objects; those already gone are no error."""
        ...
