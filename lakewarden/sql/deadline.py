"""A limit of time for calls that only another thread can interrupt."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic


class Deadlines:
    """Interrupts what takes longer than `seconds`. One thread watches over all calls, and starts with the first."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._wake = threading.Condition()
        self._running: dict[object, tuple[float, Callable[[], None]]] = {}
        """In the order of their ends, since all may take as long."""
        self._started = False

    @contextmanager
    def limit(self, interrupt: Callable[[], None]) -> Iterator[None]:
        """`interrupt` is called while the block runs too long, and never after it."""
        call = object()
        with self._wake:
            self._start()
            self._running[call] = (monotonic() + self._seconds, interrupt)
            self._wake.notify()
        try:
            yield
        finally:
            with self._wake:
                self._running.pop(call, None)

    def _start(self) -> None:
        if not self._started:
            self._started = True
            threading.Thread(target=self._watch, name="deadlines", daemon=True).start()

    def _watch(self) -> None:
        with self._wake:
            while True:
                first = next(iter(self._running), None)
                if first is None:
                    self._wake.wait()
                    continue
                left = self._running[first][0] - monotonic()  # no name for `interrupt`: it would outlive its call here
                if left > 0:
                    self._wake.wait(left)
                else:
                    self._running.pop(first)[1]()
