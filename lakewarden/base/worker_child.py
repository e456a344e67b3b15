"""What a worker process does beside its work: it ends in time, keeps its bounds, and steps back behind whatever else runs."""

from __future__ import annotations

import os
import resource
import select
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

LONGEST = 1e8
"""Seconds that a timer takes."""


@contextmanager
def alarm(seconds: float) -> Iterator[None]:
    """Has the kernel end this process after some time, whatever holds the interpreter."""
    signal.setitimer(signal.ITIMER_REAL, min(seconds, LONGEST))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def end_with(connection: socket.socket) -> None:
    """Ends this process when the other side of the connection is closed, in the middle of a call too."""
    threading.Thread(target=_wait, args=(connection,), daemon=True).start()


def _wait(connection: socket.socket) -> None:
    poll = select.poll()
    poll.register(connection, select.POLLHUP)
    poll.poll()
    os._exit(0)


# The bound on the memory of a worker: the kernel refuses allocations above it, which Python and libraries report as errors.
_STATM = Path("/proc/self/statm")
_DATA = 5
"""The place of data and stacks among the figures there, which are pages."""


@dataclass(frozen=True)
class ProcessMemory:
    """`begun` is what the process took before its first call. `figures` stays open: opening it takes longer than reading it."""

    figures: int | None
    begun: int
    allowed: int

    @classmethod
    def bounded(cls, allowed: int) -> ProcessMemory:
        """Bounds this process to this many bytes more than it takes now, on Linux. What it maps from elsewhere does not count, so
        rows that it is given are free."""
        if not _STATM.exists():
            return cls(None, 0, allowed)
        figures = os.open(_STATM, os.O_RDONLY)
        memory = cls(figures, _data_bytes(figures), allowed)
        most = memory.begun + memory.allowed
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
        return memory

    def grown(self) -> bool:
        """Whether half of what is allowed remains taken after a call: the next one would be short of it."""
        return self.figures is not None and _data_bytes(self.figures) - self.begun > self.allowed // 2


def _data_bytes(figures: int) -> int:
    return int(os.pread(figures, 200, 0).split()[_DATA]) * os.sysconf("SC_PAGE_SIZE")


# The priority of a worker process: a long call steps back behind whatever else the machine does, a short one does not.
_BACK = 10
"""By `nice`, and only as far: the kernel gives such a process a tenth of what it gives another one."""


@dataclass
class Priority:
    """Of this process, which is alone in its process group: the kernel then changes all of its threads at once."""

    after: float = 1.0
    """Seconds of the processor that a call may take before it steps back."""
    back: bool = False
    """Whether the last call left the process behind the others, since only a privileged one may come forward again."""

    @contextmanager
    def of_a_call(self) -> Iterator[None]:
        front = os.getpriority(os.PRIO_PROCESS, 0)
        ended = threading.Event()
        watch = threading.Thread(target=self._watch, args=(ended,), name="priority", daemon=True)
        watch.start()
        try:
            yield
        finally:
            ended.set()
            watch.join()
            self._come_forward(front)

    def _watch(self, ended: threading.Event) -> None:
        until = time.process_time() + self.after
        while not ended.wait(max(until - time.process_time(), 0.0)):
            if time.process_time() >= until:
                self.back = True
                os.setpriority(os.PRIO_PGRP, 0, _BACK)
                return

    def _come_forward(self, front: int) -> None:
        if self.back:
            try:
                os.setpriority(os.PRIO_PGRP, 0, front)
            except PermissionError:
                return
            self.back = False
