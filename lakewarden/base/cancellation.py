"""Ends what runs or waits for a statement, from another thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from lakewarden.errors import Canceled


class Cancellation:
    """Of one statement: not cancelled, until somebody does. Safe for threads. A copy in another process is one of its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cancelled = False
        self._ends: dict[object, Callable[[], None]] = {}

    def __reduce__(self) -> tuple[type[Cancellation], tuple[()]]:
        return Cancellation, ()

    def cancel(self) -> None:
        """Ends what runs, and everything that would begin after it. Idempotent."""
        with self._lock:  # held, so that nothing is ended behind its block
            self._cancelled = True
            for end in self._ends.values():
                end()
            self._ends.clear()

    def check(self) -> None:
        """Raises Canceled: it was cancelled."""
        if self._cancelled:
            raise Canceled("the query was ended: by request, or because its client went away")

    @contextmanager
    def ending(self, end: Callable[[], None]) -> Iterator[None]:
        """Calls `end` when it is cancelled during the block; never after the block has ended.

        Raises:
            Canceled: it was cancelled before.
        """
        block = object()
        with self._lock:
            self.check()
            self._ends[block] = end
        try:
            yield
        finally:
            with self._lock:
                self._ends.pop(block, None)
