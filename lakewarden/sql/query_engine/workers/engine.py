"""`QueryEngine` in worker processes: for queries of sessions that the process does not trust."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from hashlib import sha256
from time import monotonic

import pyarrow as pa

from lakewarden.base import frames
from lakewarden.base.frames import encoded
from lakewarden.base.setting_sections import SqlSettings
from lakewarden.base.workers import Pool, Process
from lakewarden.errors import BadSyntax, InvalidArgument, LakewardenError, PermissionDenied, Unsupported
from lakewarden.sql.query_engine.engine import Limits, Spool
from lakewarden.sql.query_engine.failures import too_long
from lakewarden.sql.query_engine.workers import messages
from lakewarden.sql.query_engine.workers.messages import End, EngineAct, EngineRequest, QueryBounds, overall
from lakewarden.sql.results import ResultRows

# One worker process, as the process that started it sees it.
_MODULE = "lakewarden.sql.query_engine.workers.child"
_GRACE_SECONDS = 2.0
"""Longer than the worker's own, which ends it at once; this one is for a worker that is stopped."""

_FRAME_BYTES = 1 << 20
_ERRORS: dict[str, type[LakewardenError]] = {
    each.__name__: each for each in (BadSyntax, InvalidArgument, PermissionDenied, Unsupported)
}


def no_rows(_rows: pa.Table) -> None:
    """Of an answer that has none."""


class Worker(Process):
    """Runs queries."""

    bounds: QueryBounds

    @classmethod
    def start(cls, bounds: QueryBounds) -> Worker:
        """Raises Internal: the process cannot be started."""
        started = cls.of_module(_MODULE, [bounds.memory_bytes, bounds.threads])
        started.bounds = bounds
        return started

    def call(
        self,
        request: EngineRequest,
        relations: Mapping[str, pa.Table],
        limits: Limits,
        take: Callable[[pa.Table], None] = no_rows,
    ) -> End:
        """Hands the rows of the result to `take` as they come, and returns the end of the answer.

        Raises:
            PermissionDenied, BadSyntax, InvalidArgument, Unsupported: because of the query, as `QueryEngine`.
            Canceled: it was cancelled.
        """
        self.usable = False
        by = monotonic() + limits.seconds + _GRACE_SECONDS
        try:
            end = self._exchanged(request, relations, by, take)
        except (OSError, EOFError) as error:
            limits.cancellation.check()
            raise self._ended(limits, late=monotonic() >= by) from error
        self.usable = not end.worn
        if end.error:
            raise _ERRORS[end.error](frames.decoded(end.message))
        return end

    def _exchanged(
        self, request: EngineRequest, relations: Mapping[str, pa.Table], by: float, take: Callable[[pa.Table], None]
    ) -> End:
        with messages.shared(relations) as (handle, placed):
            self.wait_until(by)
            frames.send(self._connection, messages.packed(replace(request, relations=placed)), last=True, handle=handle)
        left = 2 * request.result_bytes + _FRAME_BYTES  # the worker counts exactly; this is for one that does not
        most = overall(self.bounds.memory_bytes)
        while not (frame := self.receive(by, min(left, most))).last:
            left -= frame.payload.size
            take(pa.ipc.open_stream(frame.payload).read_all())
        return messages.end_of(frame)

    def _ended(self, limits: Limits, *, late: bool) -> Unsupported:
        """Why a query lost its worker."""
        if self.end() == -signal.SIGALRM or late:
            return too_long(limits)
        return Unsupported(
            "the query ended the process that ran it: it needs more memory than the"
            f" {overall(self.bounds.memory_bytes):,} bytes that it may take there (sql.memory_bytes), or DuckDB cannot run it"
        )


_REMEMBERED = 4096
"""How many texts that passed are kept."""

_CALLED = "processes for queries (sql.workers, sql.timeout_seconds)"

_pools: dict[tuple[QueryBounds, int], Pool[Worker]] = {}
_lock = threading.Lock()


def pool_of_process(settings: SqlSettings) -> Pool[Worker]:
    """The workers that all warehouses of this process with the same bounds share."""
    bounds = QueryBounds(settings.memory_bytes, settings.threads)
    with _lock:
        pool = _pools.get((bounds, settings.workers))
        if pool is None:
            pool = _pools[(bounds, settings.workers)] = Pool(partial(Worker.start, bounds), settings.workers, _CALLED)
        return pool


class Workers:
    """`QueryEngine` on the workers of a pool, which it holds until `close`. Safe for threads."""

    def __init__(self, pool: Pool[Worker]) -> None:
        self._pool = pool
        self._passed: set[bytes] = set()
        """Digests of texts that were checked: a text contains values of rows, which must not stay in memory."""
        self._release = pool.hold()

    @classmethod
    def of(cls, settings: SqlSettings) -> Workers:
        return cls(pool_of_process(settings))

    def check(self, sql: str, limits: Limits) -> None:
        digest = sha256(encoded(sql)).digest()
        if digest not in self._passed:
            self._call("check", sql, {}, limits)
            if len(self._passed) >= _REMEMBERED:
                self._passed.clear()
            self._passed.add(digest)

    def run(self, sql: str, relations: Mapping[str, pa.Table], limits: Limits) -> ResultRows:
        rows: list[pa.Table] = []
        end = self._call("run", sql, relations, limits, rows.append)
        return ResultRows(pa.concat_tables(rows), end.types)

    def spool(self, sql: str, relations: Mapping[str, pa.Table], limits: Limits) -> tuple[Spool, tuple[str, ...]]:
        found = Spool(limits.result_bytes)
        end = self._call("run", sql, relations, replace(limits, result_bytes=limits.spooled_bytes), found.add)
        return found, end.types

    def explain(self, sql: str, relations: Mapping[str, pa.Table], limits: Limits) -> str:
        return self._call("explain", sql, relations, limits).plan

    def close(self) -> None:
        """Ends the workers, unless another warehouse of this process uses them."""
        self._release()

    def _call(
        self,
        act: EngineAct,
        sql: str,
        relations: Mapping[str, pa.Table],
        limits: Limits,
        take: Callable[[pa.Table], None] = no_rows,
    ) -> End:
        request = EngineRequest(act, encoded(sql), limits.seconds, limits.result_bytes)
        with self._pool.worker(limits.seconds, limits.cancellation) as worker:
            return worker.call(request, relations, limits, take)
