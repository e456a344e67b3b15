"""What was used last, within a bound: the one cache of this package, beside `functools.lru_cache` for pure functions."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_NOTHING = None, 0


class Recent(Generic[K, V]):
    """Values by key, bounded by their sizes; the one that was not used for longest is forgotten first. Safe for threads.

    Args:
        most: the sum of all sizes, in the unit that `put` is given: values, bytes, rows.
        share: a value with more than this part of `most` is not kept, since it would push out the others for one caller.
    """

    def __init__(self, most: int, share: int = 1) -> None:
        self._most = most
        self._largest = most // share
        self._values: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def put(self, key: K, value: V, size: int = 1) -> None:
        """Keeps the value in place of the one before; of one that is too large, neither is left."""
        with self._lock:
            self._size -= self._values.pop(key, _NOTHING)[1]
            if size > self._largest:
                return
            self._values[key] = (value, size)
            self._size += size
            while self._size > self._most:
                self._size -= self._values.popitem(last=False)[1][1]

    def get(self, key: K) -> V | None:
        with self._lock:
            found = self._values.get(key)
            if found is None:
                return None
            self._values.move_to_end(key)
            return found[0]

    def forget(self, key: K) -> None:
        with self._lock:
            self._size -= self._values.pop(key, _NOTHING)[1]
