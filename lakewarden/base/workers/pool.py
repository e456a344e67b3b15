"""The workers of a process: started when a call needs one, kept for the next, replaced when they are not usable."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Condition
from time import monotonic
from typing import Generic, TypeVar

from lakewarden.base.workers.cancellation import Cancellation
from lakewarden.base.workers.process import Process
from lakewarden.errors import Unsupported

Worker = TypeVar("Worker", bound=Process)


class Pool(Generic[Worker]):
    """Lends a worker to one call at a time. Safe for threads; a forked process starts workers of its own."""

    def __init__(self, start: Callable[[], Worker], most: int, called: str) -> None:
        """
        Args:
            called: what there are at most so many of, for the error when all are busy.
        """
        self._start = start
        self._most = most
        self._called = called
        self._begin()
        self._inherited: list[Worker] = []
        """Of the process that this one was forked from. Kept, since they are not this one's children to wait for."""
        os.register_at_fork(after_in_child=self._forked)
        atexit.register(self.end)

    def _begin(self) -> None:
        self._changed = Condition()
        self._idle: list[Worker] = []
        self._count = 0
        """Of workers that are idle, busy, or being started."""
        self._holders = 0

    def hold(self) -> None:
        """Keeps idle workers until `release`."""
        with self._changed:
            self._holders += 1

    def release(self) -> None:
        """Ends the idle workers if nothing else holds them; a busy one ends after its call."""
        with self._changed:
            self._holders -= 1
            unheld = self._holders <= 0
        if unheld:
            self.end()

    def end(self) -> None:
        """Ends the idle workers. The pool remains usable: the next call starts another."""
        with self._changed:
            ended, self._idle = self._idle, []
            self._count -= len(ended)
            self._changed.notify_all()
        for worker in ended:
            worker.end()

    @contextmanager
    def worker(self, seconds: float, cancellation: Cancellation | None = None) -> Iterator[Worker]:
        """Waits for a worker and lends it for the block, which ends with the worker's process if it is cancelled.

        Raises:
            Canceled: it was cancelled before the block.
            Unsupported: all were busy for so many seconds.
            Internal: a worker cannot be started.
        """
        cancellation = cancellation or Cancellation()
        lent = self._idle_one(seconds, cancellation) or self._started()
        try:
            with cancellation.ending(lent.kill):
                yield lent
        finally:
            self._take_back(lent)

    def _idle_one(self, seconds: float, cancellation: Cancellation) -> Worker | None:
        """An idle worker; None where a new one may be started."""
        until = monotonic() + seconds
        with cancellation.ending(self._wake), self._changed:
            while not self._idle:
                if self._count < self._most:
                    self._count += 1
                    return None
                cancellation.check()
                if not self._changed.wait(max(until - monotonic(), 0)) and not self._idle:
                    raise Unsupported(f"all {self._most} {self._called} were busy for {seconds:g} seconds; try again")
            found = self._idle.pop()
        if found.alive:
            return found
        found.end()
        return self._started()

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _started(self) -> Worker:
        started = None
        try:
            started = self._start()
        finally:
            if started is None:
                self._leave()
        return started

    def _take_back(self, worker: Worker) -> None:
        with self._changed:
            if worker.usable and self._holders > 0:
                self._idle.append(worker)
                self._changed.notify()
                return
        worker.end()
        self._leave()

    def _leave(self) -> None:
        with self._changed:
            self._count -= 1
            self._changed.notify()

    def _forked(self) -> None:
        for worker in self._idle:
            worker.forget()
        self._inherited += self._idle
        holders = self._holders
        self._begin()
        self._holders = holders
