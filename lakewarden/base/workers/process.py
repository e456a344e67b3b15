"""A child process, as the process that started it sees it: a socket to it, and its end."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Self

from lakewarden.base.workers import frames
from lakewarden.errors import Internal

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
