"""The manifests that this process wrote last on object stores, which saves reading them again. What they say is looked at
all the same before it is used."""

from __future__ import annotations

import threading
from collections import OrderedDict

_MOST = 64 << 20
"""Bytes; the manifest of a small scope has two thousand."""


class KeptTexts:
    """Bounded, the one that was not used for longest forgotten first; safe for threads."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._texts: OrderedDict[str, bytes] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def put(self, uri: str, text: bytes) -> None:
        with self._lock:
            self._drop(uri)
            self._texts[uri] = text
            self._size += len(text)
            while self._size > self._most:
                self._drop(next(iter(self._texts)))

    def get(self, uri: str) -> bytes | None:
        with self._lock:
            if uri in self._texts:
                self._texts.move_to_end(uri)
            return self._texts.get(uri)

    def forget(self, uri: str) -> None:
        with self._lock:
            self._drop(uri)

    def _drop(self, uri: str) -> None:
        self._size -= len(self._texts.pop(uri, b""))


KEPT_TEXTS = KeptTexts()
