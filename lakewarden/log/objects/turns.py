"""Turns of threads that would only make each other's work void."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class NamedLocks:
    """Locks by name. A lock takes memory while a thread holds it or waits for it. Safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[str, tuple[threading.RLock, int]] = {}
        """By name, the lock, and how many have it or wait for it."""

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        """Waits for the turn, and has it for the block."""
        with self._lock:
            turn, others = self._held.get(name, (threading.RLock(), 0))
            self._held[name] = turn, others + 1
        try:
            with turn:
                yield
        finally:
            with self._lock:
                _, count = self._held.pop(name)
                if count > 1:
                    self._held[name] = turn, count - 1
