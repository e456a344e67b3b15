"""The workers of a process: child processes, started when a call needs one, kept for the next, and replaced once unusable."""

from __future__ import annotations

import atexit
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Condition
from time import monotonic
from typing import Generic, Self, TypeVar

from lakewarden.base import frames
from lakewarden.base.cancellation import Cancellation
from lakewarden.errors import Internal, Unsupported

# A child process, as the process that started it sees it: a socket to it, and its end.
_START_SECONDS = 120.0
_END_SECONDS = 1.0
_READY_BYTES = 1 << 20
_SHARED = ("LANG", "LC_ALL", "LD_LIBRARY_PATH", "PATH", "TMPDIR")
"""The variables that a worker is given of this process's: none that may hold a credential."""


class Process:
    """Serves one call at a time, for one thread at a time. `usable` is false from the start of a call to its proper end."""

    def __init__(self, process: subprocess.Popen[bytes], connection: socket.socket) -> None:
        self._process = process
        self._connection = connection
        self.usable = False

    @classmethod
    def of_module(cls, module: str, arguments: Sequence[int]) -> Self:
        """Starts a module as a program with these arguments and the number of its socket, and waits for its first frame.

        Raises:
            Internal: the process cannot be started.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                process = subprocess.Popen(
                    [sys.executable, "-P", "-m", module, *map(str, arguments), str(theirs.fileno())],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    cwd="/",
                    env=_environment(),
                    process_group=0,  # Ctrl-C is for this process; in a session of its own, `nice` would have no effect
                )
            except OSError as error:
                ours.close()
                raise Internal(f"a worker process cannot be started: {error}") from error
        worker = cls(process, ours)
        try:
            worker.receive(monotonic() + _START_SECONDS, _READY_BYTES)
            worker.usable = True
        except (OSError, EOFError) as error:
            raise Internal(f"a worker process ended while it started, with status {worker.end()}") from error
        finally:
            if not worker.usable:
                worker.end()
        return worker

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def end(self) -> int:
        """Ends the process, if it has not ended, and returns its status."""
        self._connection.close()
        if self.usable:
            with suppress(subprocess.TimeoutExpired):
                return self._process.wait(_END_SECONDS)  # it ends by itself, without a connection
        self._process.kill()
        return self._process.wait()

    def kill(self) -> None:
        """Ends the process at once, whatever it does. For any thread: the one that waits for an answer gets none."""
        self._process.kill()

    def forget(self) -> None:
        """For a forked process: the worker is its parent's."""
        self._connection.close()

    def receive(self, by: float, most: int) -> frames.Frame:
        """Waits until `by`, by the monotonic clock. Raises as `frames.receive`."""
        self.wait_until(by)
        return frames.receive(self._connection, most)

    def wait_until(self, by: float) -> None:
        """Bounds each wait for the socket from here on."""
        self._connection.settimeout(max(by - monotonic(), 0.001))


def _environment() -> dict[str, str]:
    found = {name: os.environ[name] for name in _SHARED if name in os.environ}
    directories = (Path(each).absolute() for each in sys.path)  # Spark adds archives, none of which a worker needs
    paths = os.pathsep.join(str(each) for each in directories if each.is_dir())
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    return found | one_thread | {"PYTHONPATH": paths, "ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "2"}


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

    def hold(self) -> Callable[[], None]:
        """Keeps idle workers until what it returns is called, which ends them if nothing else holds them; a busy one ends after
        its call. A second call of that does nothing: it would let go of what another holds.
        """
        with self._changed:
            self._holders += 1
        held = ExitStack()
        held.callback(self._release)
        return held.close

    def _release(self) -> None:
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
