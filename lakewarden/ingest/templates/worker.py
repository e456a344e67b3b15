"""One worker for templates, as the process that started it sees it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Self

from lakewarden.base import frames
from lakewarden.base.workers import Pool, Process
from lakewarden.errors import InvalidArgument, LakewardenError, NotFound, StorageUnavailable, Unsupported
from lakewarden.ingest.templates import messages
from lakewarden.ingest.templates.messages import MOST_BYTES, RangeRequest, ReadBounds, ReadOutcome, Task
from lakewarden.ingest.templates.object_file import Ranges
from lakewarden.ingest.templates.template import Columns

_MODULE = "lakewarden.ingest.templates.child"
_LEAST_BYTES = 64 << 10
"""What a request for fewer bytes counts as: each costs the store a look-up."""
_OVER_AND_OVER = b"the template reads the object over and over"
_MISUSES: dict[str, type[LakewardenError]] = {each.__name__: each for each in (InvalidArgument, NotFound, Unsupported)}


@dataclass(frozen=True)
class ReadJob:
    """An object to be read."""

    template: str
    key: str
    size: int
    """Bytes."""
    options: Mapping[str, object] = field(default_factory=dict)
    """As `parse_options` takes them."""
    columns: Columns = field(default_factory=dict)
    """The table's, if it has a schema."""


@dataclass(frozen=True)
class ObjectRows:
    """An object was read: its columns, none where it has no rows."""

    rows: int
    bytes: int
    """In Arrow's form."""
    columns: Columns
    path: Path = field(default=Path(), compare=False)
    """Of the file with the rows, as one stream of Arrow."""


@dataclass(frozen=True)
class ReadRejected:
    """An object cannot be read, or not within its bounds."""

    code: str
    """Of the errors (docs/reference/errors.md)."""
    reason: str
    """One line."""


class ChildReader(Process):
    """Reads objects."""

    bounds: ReadBounds

    @classmethod
    def start(cls, bounds: ReadBounds) -> ChildReader:
        """Raises Internal: the process cannot be started."""
        started = cls.of_module(_MODULE, [bounds.memory_bytes])
        started.bounds = bounds
        return started

    def read(self, job: ReadJob, ranges: Ranges, into: Path) -> ObjectRows | ReadRejected:
        """Raises:
        NotFound, InvalidArgument, Unsupported: because of the template or its options.
        Whatever `ranges` raises.
        """
        self.usable = False
        try:
            outcome = self._answered(job, ranges, into)
        except (OSError, EOFError) as error:
            return ReadRejected(Unsupported.code, self._lost(job, late=isinstance(error, TimeoutError)))
        self.usable = not outcome.grown
        reason = frames.decoded(outcome.reason)
        if outcome.misused:
            raise _MISUSES[outcome.misused](reason)
        if outcome.code:
            return ReadRejected(outcome.code, reason)
        return ObjectRows(outcome.rows, outcome.size, messages.columns_of(outcome.columns), into)

    def _answered(self, job: ReadJob, ranges: Ranges, into: Path) -> ReadOutcome:
        by = monotonic() + self.bounds.wall(job.size)
        left = self.bounds.fetched(job.size)
        columns = messages.typed(job.columns)
        task = Task(job.template, job.options, columns, frames.encoded(job.key), job.size, self.bounds)
        with into.open("wb") as file:
            self.wait_until(by)
            frames.send(self._connection, messages.packed(task), last=True, handle=file.fileno())
        while not (frame := self.receive(by, MOST_BYTES)).last:
            wanted = messages.unpacked(frame.payload, RangeRequest)
            left -= max(wanted.length, _LEAST_BYTES)
            if left < 0:
                return ReadOutcome(code=Unsupported.code, reason=_OVER_AND_OVER, grown=True)
            began = monotonic()
            data = _fetched(ranges, wanted)
            by += monotonic() - began
            self.wait_until(by)
            frames.send(self._connection, data, last=True)
        return messages.unpacked(frame.payload, ReadOutcome)

    def _lost(self, job: ReadJob, *, late: bool) -> str:
        """Why an object lost its worker."""
        status = self.end()
        if status == -signal.SIGPROF:
            return f"reading the object takes more than {self.bounds.cpu(job.size):g} seconds of processor time"
        if late:
            return f"reading the object takes longer than {self.bounds.wall(job.size):g} seconds"
        return (
            f"the object ended the process that read it, with status {status}: it needs more memory than the"
            f" {self.bounds.memory_bytes:,} bytes that are allowed, or the template {job.template!r} cannot read it"
        )


def _fetched(ranges: Ranges, wanted: RangeRequest) -> bytes:
    try:
        return ranges(wanted.start, wanted.length)
    except (OSError, EOFError) as error:
        raise StorageUnavailable(f"cannot read the object: {error}") from error


# Reads objects in the worker processes of this process.
_PATIENCE = 1e8
"""Seconds to wait for a worker: each is bounded by itself."""

_pools: dict[tuple[ReadBounds, int], Pool[ChildReader]] = {}
_lock = threading.Lock()


def _pool_of_process(bounds: ReadBounds, workers: int) -> Pool[ChildReader]:
    with _lock:
        pool = _pools.get((bounds, workers))
        if pool is None:
            pool = _pools[bounds, workers] = Pool(partial(ChildReader.start, bounds), workers, "processes for templates")
        return pool


class BoundedReads:
    """Reads objects, one at a time for each thread, in at most so many workers; one that an object ended is replaced.

    Workers serve many objects, are shared by all of these with the same bounds, and end with the last one of them.
    """

    def __init__(self, bounds: ReadBounds, workers: int = 1) -> None:
        self._pool = _pool_of_process(bounds, workers)

    def __enter__(self) -> Self:
        self._release = self._pool.hold()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._release()

    def read(self, job: ReadJob, ranges: Ranges, into: Path) -> ObjectRows | ReadRejected:
        """Reads one object; its rows are in the file `into` then, as one Arrow stream, which has no meaning if it was rejected.

        Args:
            ranges: reads `length` bytes of the object from `start` on, of the same version each time. Runs in this process.

        Raises:
            NotFound, InvalidArgument, Unsupported: because of the template or its options: no object can be read.
            StorageUnavailable, and whatever else `ranges` raises: the object was not read, and not rejected.
            Internal: a worker cannot be started.
        """
        with self._pool.worker(_PATIENCE) as worker:
            return worker.read(job, ranges, into)
