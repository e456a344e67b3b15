"""What this process knows of the scopes that it wrote last. Whatever it says is looked at all the same before it is used."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Generic, TypeVar

from lakewarden.delta.snapshot import MOST_KEPT, Snapshot

T = TypeVar("T")

_MOST_BYTES = 64 << 20
"""Bytes of manifests; that of a small scope has two thousand."""


class Recent(Generic[T]):
    """Values by key, bounded by their sizes; the one that was not used for longest is forgotten first. Safe for threads."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[str, tuple[T, int]] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def put(self, key: str, value: T, size: int) -> None:
        with self._lock:
            self._drop(key)
            self._values[key] = (value, size)
            self._size += size
            while self._size > self._most:
                self._drop(next(iter(self._values)))

    def get(self, key: str) -> T | None:
        with self._lock:
            if key not in self._values:
                return None
            self._values.move_to_end(key)
            return self._values[key][0]

    def forget(self, key: str) -> None:
        with self._lock:
            self._drop(key)

    def _drop(self, key: str) -> None:
        _, size = self._values.pop(key, (None, 0))
        self._size -= size


KEPT_TEXTS: Recent[bytes] = Recent(_MOST_BYTES)
"""The manifests that this process wrote last on object stores, by the scope's URI, which saves reading them again."""

KEPT_VERSIONS: Recent[Snapshot] = Recent(MOST_KEPT)
"""Versions with too many files for a manifest to list them, by the key that their manifest would be signed with."""
