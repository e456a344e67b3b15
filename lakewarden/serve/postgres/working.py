"""Runs the work of one connection in threads, one at a time, within what its user may take."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from starlette.concurrency import run_in_threadpool

from lakewarden.base.cancellation import Cancellation
from lakewarden.errors import LakewardenError
from lakewarden.serve.authority import RequestDeclined
from lakewarden.serve.common import Common
from lakewarden.serve.postgres.problems import CANCELED, ProtocolError, problem_of
from lakewarden.serve.postgres.state import State
from lakewarden.serve.tokens import AccessToken

T = TypeVar("T")

_PATH = "postgres"
_DONE = "00000"
_LOOK_SECONDS = 0.05
"""Between looks whether what is to be ended has become a query."""
_GONE_SECONDS = 1.0
"""Between looks whether the client has gone."""


@dataclass
class Working:
    """`seconds`: how long a client may take to read a part of an answer."""

    common: Common
    token: AccessToken
    connection: str
    state: State
    """Of the connection: what it runs, and how long a query may take."""
    seconds: float
    has_left: Callable[[], bool]
    """Whether the client has gone away."""
    _cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    _abandoned: asyncio.Future[Any] | None = None
    """A query that was ended for the client, and still runs."""

    async def run(self, act: Callable[[], T], what: str) -> T:
        """Runs `act` in a thread. A query is left at its timeout, when it is cancelled, or when the client has gone.

        Args:
            what: names it in the log.

        Raises:
            Problem: it failed, was cancelled, or took too long.
        """
        began, sqlstate = time.perf_counter(), _DONE
        try:
            with self.common.figures.running.track_inprogress():
                return await self._awaited(act)
        except (LakewardenError, RequestDeclined) as error:
            problem = problem_of(error, fatal=isinstance(error, RequestDeclined) and error.status == 401)
            sqlstate = problem.sqlstate
            raise problem from error
        except ProtocolError as problem:
            sqlstate = problem.sqlstate
            raise
        finally:
            user = self.token.principal.user
            self.common.figures.note(_PATH, sqlstate, began, self.connection, user, "POSTGRES", what)

    def cancel(self) -> None:
        self._cancelled.set()

    async def _awaited(self, act: Callable[[], T]) -> T:
        state, timeout = self.state, self.state.variables.timeout_seconds
        state.cancellation = Cancellation()
        if self._abandoned is not None:
            await asyncio.wait({self._abandoned})
            self._abandoned = None
        self._cancelled.clear()
        task = asyncio.ensure_future(run_in_threadpool(self._allowed, act))
        ends = {asyncio.ensure_future(self._cancelled.wait()), asyncio.ensure_future(self._gone())}
        try:
            await asyncio.wait({task, *ends}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for end in ends:
                end.cancel()
        if not task.done():
            state.cancellation.cancel()
        while not task.done() and not state.querying:
            await asyncio.wait({task}, timeout=_LOOK_SECONDS)
        if not task.done():
            self._abandoned = task
            task.add_done_callback(_looked_at)
            raise ProtocolError(CANCELED, "the query was ended, by request or by statement_timeout")
        return await task

    async def _gone(self) -> None:
        while not self.has_left():
            await asyncio.sleep(_GONE_SECONDS)

    def _allowed(self, act: Callable[[], T]) -> T:
        with self.common.allowance.of(self.token.principal.user):
            self.common.authority.check(self.token)
            return act()


def _looked_at(task: asyncio.Future[Any]) -> None:
    """Its end is of no interest to anybody, an error included."""
    if not task.cancelled():
        task.exception()
