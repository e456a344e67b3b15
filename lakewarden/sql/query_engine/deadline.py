"""Limits the time of calls that only another thread can interrupt.

A module of its own: its thread keeps the module's names to the end of the process. Beside the engines, DuckDB's connections would
outlive DuckDB, which complains of that on stderr.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic


class Deadlines:
    """Interrupts calls that take too long. One thread watches all calls; the first call starts it. A forked process starts a
    thread of its own.
    """

    def __init__(self) -> None:
        self._begin()
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        """Watches no call. In a forked process the lock too is new: the parent's thread, which a fork does not copy, may have
        held the old one.
        """
        self._wake = threading.Condition()
        self._running: dict[object, tuple[float, Callable[[], None]]] = {}
        """The end of each call, and how to interrupt it."""
        self._watcher: threading.Thread | None = None

    @contextmanager
    def limit(self, seconds: float, interrupt: Callable[[], None]) -> Iterator[None]:
        """Calls `interrupt` if the block runs too long; never after the block has ended."""
        call = object()
        with self._wake:
            self._start()
            self._running[call] = (monotonic() + seconds, interrupt)
            self._wake.notify()
        try:
            yield
        finally:
            with self._wake:
                self._running.pop(call, None)

    def _start(self) -> None:
        if self._watcher is None:
            self._watcher = threading.Thread(target=self._watch, name="deadlines", daemon=True)
            self._watcher.start()

    def _watch(self) -> None:
        with self._wake:
            while True:
                first = min(self._running, key=self._end, default=None)
                if first is None:
                    self._wake.wait()
                    continue
                left = self._end(first) - monotonic()  # no name for `interrupt`: it would outlive its call here
                if left > 0:
                    self._wake.wait(left)
                else:
                    self._running.pop(first)[1]()

    def _end(self, call: object) -> float:
        return self._running[call][0]
