"""One worker process, as the process that started it sees it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic

import pyarrow as pa

from lakewarden.errors import BadSyntax, Internal, InvalidArgument, LakewardenError, PermissionDenied, Unsupported
from lakewarden.sql.query_engine.engine import Limits
from lakewarden.sql.query_engine.failures import too_long
from lakewarden.sql.query_engine.workers import frames
from lakewarden.sql.query_engine.workers.frames import End, Request
from lakewarden.sql.query_engine.workers.memory import overall

_MODULE = "lakewarden.sql.query_engine.workers.child"
_START_SECONDS = 120.0
_END_SECONDS = 1.0
_GRACE_SECONDS = 2.0
"""Longer than the worker's own, which ends it at once; this one is for a worker that is stopped."""

_FRAME_BYTES = 1 << 20
_ERRORS: dict[str, type[LakewardenError]] = {
    each.__name__: each for each in (BadSyntax, InvalidArgument, PermissionDenied, Unsupported)
}
_SHARED = ("LANG", "LC_ALL", "LD_LIBRARY_PATH", "PATH", "TMPDIR")
"""The variables that a worker is given of this process's: none that may hold a credential."""


@dataclass(frozen=True)
class Bounds:
    """The bounds of one worker."""

    memory_bytes: int
    threads: int


class Worker:
    """Runs one request at a time, for one thread at a time. `usable` is false from the start of a request to its proper end."""

    def __init__(self, process: subprocess.Popen[bytes], connection: socket.socket, bounds: Bounds) -> None:
        self._process = process
        self._connection = connection
        self._bounds = bounds
        self.usable = False

    @classmethod
    def start(cls, bounds: Bounds) -> Worker:
        """Raises:
        Internal: the process cannot be started.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            arguments = [str(bounds.memory_bytes), str(bounds.threads), str(theirs.fileno())]
            try:
                process = subprocess.Popen(
                    [sys.executable, "-P", "-m", _MODULE, *arguments],
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
                raise Internal(f"a process for queries cannot be started: {error}") from error
        worker = cls(process, ours, bounds)
        try:
            worker._receive(monotonic() + _START_SECONDS, _FRAME_BYTES)
            worker.usable = True
        except (OSError, EOFError) as error:
            raise Internal(f"a process for queries ended while it started, with status {worker.end()}") from error
        finally:
            if not worker.usable:
                worker.end()
        return worker

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def call(self, request: Request, relations: Mapping[str, pa.Table], limits: Limits) -> tuple[list[pa.Table], End]:
        """Returns the rows of the result, and the end of the answer.

        Raises:
            PermissionDenied, BadSyntax, InvalidArgument, Unsupported: because of the query, as `QueryEngine`.
        """
        self.usable = False
        by = monotonic() + limits.seconds + _GRACE_SECONDS
        try:
            rows, end = self._exchanged(request, relations, limits, by)
        except (OSError, EOFError) as error:
            raise self._ended(limits, late=monotonic() >= by) from error
        self.usable = not end.grown
        if end.error:
            raise _ERRORS[end.error](frames.decoded(end.message))
        return rows, end

    def end(self) -> int:
        """Ends the process, if it has not ended, and returns its status."""
        self._connection.close()
        if self.usable:
            with suppress(subprocess.TimeoutExpired):
                return self._process.wait(_END_SECONDS)  # it ends by itself, without a connection
        self._process.kill()
        return self._process.wait()

    def forget(self) -> None:
        """For a forked process: the worker is its parent's."""
        self._connection.close()

    def _exchanged(
        self, request: Request, relations: Mapping[str, pa.Table], limits: Limits, by: float
    ) -> tuple[list[pa.Table], End]:
        with frames.shared(relations) as (handle, placed):
            self._patience(by)
            frames.send(self._connection, frames.packed(replace(request, relations=placed)), last=True, handle=handle)
        rows = []
        left = 2 * limits.result_bytes + _FRAME_BYTES  # the worker counts exactly; this is for one that does not
        while not (frame := self._receive(by, left)).last:
            left -= frame.payload.size
            rows.append(pa.ipc.open_stream(frame.payload).read_all())
        return rows, frames.end_of(frame)

    def _receive(self, by: float, most: int) -> frames.Frame:
        self._patience(by)
        return frames.receive(self._connection, most)

    def _patience(self, by: float) -> None:
        self._connection.settimeout(max(by - monotonic(), 0.001))

    def _ended(self, limits: Limits, *, late: bool) -> Unsupported:
        """Why a query lost its worker."""
        if self.end() == -signal.SIGALRM or late:
            return too_long(limits)
        return Unsupported(
            "the query ended the process that ran it: it needs more memory than the"
            f" {overall(self._bounds.memory_bytes):,} bytes that it may take there (sql.memory_bytes), or DuckDB cannot run it"
        )


def _environment() -> dict[str, str]:
    found = {name: os.environ[name] for name in _SHARED if name in os.environ}
    directories = (Path(each).absolute() for each in sys.path)  # Spark adds archives, none of which a worker needs
    paths = os.pathsep.join(str(each) for each in directories if each.is_dir())
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    return found | one_thread | {"PYTHONPATH": paths, "ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "2"}
