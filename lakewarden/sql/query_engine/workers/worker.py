"""One worker process, as the process that started it sees it."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from dataclasses import replace
from time import monotonic

import pyarrow as pa

from lakewarden.base.workers import frames
from lakewarden.base.workers.pool import Process
from lakewarden.errors import BadSyntax, InvalidArgument, LakewardenError, PermissionDenied, Unsupported
from lakewarden.sql.query_engine.engine import Limits
from lakewarden.sql.query_engine.failures import too_long
from lakewarden.sql.query_engine.workers import messages
from lakewarden.sql.query_engine.workers.bounds import QueryBounds, overall
from lakewarden.sql.query_engine.workers.messages import End, EngineRequest

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
        """Raises:
        Internal: the process cannot be started.
        """
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
