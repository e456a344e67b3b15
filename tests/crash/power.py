"""When the power goes, and what the kernel has written by then: drawn from a seed, counted in events and never in time.

An event is a call by which the library creates, renames, links, removes, lists or syncs something on the disk, or takes a
moment or an id. A kernel may write any file back at any time, and any process may sync a file of its own, which commits
the journal with all names so far: both happen here at drawn events, since they are what makes a file have a name and no bytes.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Literal, TypeVar

from tests.crash.disk import cut
from tests.crash.journal import Journal

T = TypeVar("T")

_CALLS = {"open", "os.link", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.scandir", "os.listdir"}
_NEVER = 1 << 40

Deaf = Literal["", "fsync", "syncfs"]
"""Which of the library's own syncs do nothing: what a campaign that finds something looks like."""


@dataclass(frozen=True)
class Moment:
    """`event`: counted from the begin of the round, or of its `step`-th step where that is not 0."""

    event: int
    step: int
    tables: bool
    """Only what happens below the tables' directories counts."""
    late: float
    """Seconds by which another thread cuts later, in the middle of whatever a library does then; 0: in the very thread."""
    stranger: float
    """How probable a stranger's sync is at an event."""
    writeback: float
    """The same of the kernel's writing back a file of the warehouse."""
    strike: bool
    """Both right before the cut, to half of what was not synced."""
    beside: float
    """How probable it is that another writer writes at an event."""


def draw_moment(rng: Random) -> Moment:
    event, step, tables = rng.choice(
        [
            (rng.randrange(1, 1_500), 0, False),
            (rng.randrange(1, 25), rng.randrange(1, 14), False),
            (rng.randrange(1, 300), 0, True),
            (rng.randrange(1, 25), rng.randrange(1, 14), True),
        ]
    )
    return Moment(
        event=event,
        step=step,
        tables=tables,
        late=rng.choice([0, 0, rng.uniform(0, 0.004)]),
        stranger=rng.choice([0, 0.02, 0.1]),
        writeback=rng.choice([0, 0.02, 0.1]),
        strike=rng.random() < 0.7,
        beside=rng.choice([0, 0.01, 0.05]),
    )


class Power:
    """Counts the events of this process on one disk, and cuts."""

    def __init__(self, mounted: str, warehouse: str, moment: Moment, journal: Journal, rng: Random, *, deaf: Deaf = "") -> None:
        self._mounted = mounted
        self._warehouse = warehouse
        self._moment = moment
        self._journal = journal
        self._rng = rng
        self._descriptor = os.open(mounted, os.O_RDONLY)
        self._inside = threading.local()
        self._one = threading.Lock()
        self._steps = 0
        self._began = 0 if moment.step == 0 else _NEVER
        self._events = 0
        self._late = threading.Event()
        self._since = time.time()
        self._sync = os.fsync
        self._deaf = deaf
        self.on = True
        self.wake_beside: Callable[[], None] = lambda: None

    def watch(self) -> None:
        """From here on events count; for the rest of this process's life."""
        sys.addaudithook(self._audit)
        os.fsync = self.counted((lambda descriptor: None) if self._deaf == "fsync" else self._sync)
        if self._deaf == "syncfs":
            ctypes.CDLL = _DeafLibrary  # type: ignore[misc,assignment]
        if self._moment.late:
            threading.Thread(target=self._cut_late, daemon=True).start()

    def counted(self, call: Callable[..., T]) -> Callable[..., T]:
        def counting(*arguments: object) -> T:
            self._once(lambda: self._happen(""))
            return call(*arguments)

        return counting

    def unheard(self, call: Callable[[], None]) -> Callable[[], None]:
        """The same for a thread whose calls are no events."""

        def quiet() -> None:
            self._inside.now = True
            call()

        return quiet

    def step(self) -> None:
        """A step of the workload begins."""
        self._steps += 1
        if self._steps == self._moment.step:
            self._began = self._events

    def end(self) -> None:
        """Cuts, if nothing did so far."""
        self._once(self._cut)

    def _once(self, act: Callable[[], None]) -> None:
        """One thread at a time, and what it does itself is no event."""
        if not self.on or getattr(self._inside, "now", False):
            return
        self._inside.now = True
        try:
            with self._one:
                if self.on:
                    act()
        finally:
            self._inside.now = False

    def _audit(self, name: str, arguments: tuple[object, ...]) -> None:
        path = str(arguments[name == "os.link"]) if name in _CALLS else ""  # what is linked may have no path of its own
        if path.startswith(self._mounted) or name == "ctypes.dlsym":
            self._once(lambda: self._happen(path))

    def _happen(self, path: str) -> None:
        self._events += not self._moment.tables or path.startswith(f"{self._warehouse}/data")
        if self._events >= self._began + self._moment.event:
            self._strike()
        elif self._rng.random() < self._moment.beside:
            self.wake_beside()
        elif self._rng.random() < self._moment.stranger:
            self._commit_journal()
        elif self._rng.random() < self._moment.writeback:
            self._write_back(0.3)

    def _strike(self) -> None:
        if self._moment.late:
            self._late.set()
        else:
            self._cut()

    def _cut_late(self) -> None:
        self._late.wait()
        time.sleep(self._moment.late)
        self.end()

    def _cut(self) -> None:
        if self._moment.strike:
            with suppress(OSError):
                self._write_back(0.5)
                self._commit_journal()
        self._journal.cut(self._events)
        cut(self._descriptor)
        self.on = False

    def _commit_journal(self) -> None:
        descriptor = os.open(f"{self._mounted}/stranger", os.O_WRONLY | os.O_CREAT)
        try:
            os.write(descriptor, b"x")
            self._sync(descriptor)
        finally:
            os.close(descriptor)

    def _write_back(self, share: float) -> None:
        """Some of the files that came since the round began, whoever made them."""
        for directory, _, names in os.walk(self._warehouse):
            for name in sorted(names):
                path = f"{directory}/{name}"
                with suppress(FileNotFoundError):
                    if Path(path).stat().st_mtime >= self._since and self._rng.random() < share:
                        self._sync_file(path)

    def _sync_file(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            self._sync(descriptor)
        finally:
            os.close(descriptor)


class _DeafLibrary:
    """The C library as `ctypes` shows it, where all that is called of it is `syncfs`."""

    def __init__(self, *_: object, **__: object) -> None:
        self.syncfs = lambda _descriptor: 0
