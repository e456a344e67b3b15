"""Signs of life: a thread that says again and again that its process is there, however long one step of the work takes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

from lakewarden.errors import StorageUnavailable


class BeatThread(threading.Thread):
    """Calls `beat` at an interval until it ends, or a beat returns False: then what it renews is lost. A context.

    Args:
        beat: what it cannot say because a store is away, the next one may. It raises nothing else.
        seconds: between two beats.
        first: seconds before the first one; as between two, where it is None. With 0, there is one however soon it ends.
    """

    def __init__(self, name: str, beat: Callable[[], bool], seconds: float, first: float | None = None) -> None:
        super().__init__(name=name, daemon=True)
        self._beat = beat
        self._seconds = seconds
        self._first = seconds if first is None else first
        self._ended = threading.Event()

    def run(self) -> None:
        if self._first and self._ended.wait(self._first):
            return
        while self._goes_on():
            if self._ended.wait(self._seconds):
                return

    def _goes_on(self) -> bool:
        with suppress(StorageUnavailable):
            return self._beat()
        return True

    def end(self) -> None:
        """Waits for a beat that is under way; no other comes."""
        # First the sign, then the wait: no beat may come behind what the caller does next, such as giving a lease back.
        self._ended.set()
        self.join()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.end()
