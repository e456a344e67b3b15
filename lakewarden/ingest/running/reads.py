"""Reads objects in the worker processes of this process."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from lakewarden.base.workers.pool import Pool
from lakewarden.ingest.running.bounds import ReadBounds
from lakewarden.ingest.running.worker import ChildReader, ObjectRows, ReadJob, ReadRejected
from lakewarden.ingest.templates.object_file import Ranges

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
        self._pool.hold()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._pool.release()

    def read(self, job: ReadJob, ranges: Ranges, into: Path) -> ObjectRows | ReadRejected:
        """Reads one object; its rows are in the file `into` then (`output.open_rows`), which has no meaning if it was rejected.

        Args:
            ranges: reads `length` bytes of the object from `start` on, of the same version each time. Runs in this process.

        Raises:
            NotFound, InvalidArgument, Unsupported: because of the template or its options: no object can be read.
            StorageUnavailable, and whatever else `ranges` raises: the object was not read, and not rejected.
            Internal: a worker cannot be started.
        """
        with self._pool.worker(_PATIENCE) as worker:
            return worker.read(job, ranges, into)
