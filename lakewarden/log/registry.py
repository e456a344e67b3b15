"""What is open of each log in this process: one object of it, shared by all who ask."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

T = TypeVar("T")

_KEPT = 256
"""Logs that stay open although nothing holds them, those used last: each knows where its log ends without a look."""


class OpenLogs(Generic[T]):
    """One object for each key, for as long as anything holds it, and a while longer. Safe for threads."""

    def __init__(self, kept: int = _KEPT) -> None:
        self._kept = kept
        self._open: WeakValueDictionary[Hashable, T] = WeakValueDictionary()
        self._recent: OrderedDict[Hashable, T] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, key: Hashable, make: Callable[[], T]) -> T:
        with self._lock:
            found = self._open.get(key)
            if found is None:
                found = self._open[key] = make()
            self._recent[key] = found
            self._recent.move_to_end(key)
            if len(self._recent) > self._kept:
                self._recent.popitem(last=False)
            return found
