"""One subscription, followed for one client: its events, signs of life between them, and an end that says why.

Nothing waits in memory for a client: the next look at the log comes after all that the last one brought was taken. So a client
that reads slowly falls behind, and one that does not read is ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from lakewarden.base.settings import ServeSettings
from lakewarden.errors import LakewardenError, Transient
from lakewarden.serve.http.live.messages import EventBatch, LiveMessage, failed, goodbye, heartbeat
from lakewarden.serve.http.live.source import LOOK_SECONDS, LiveSource
from lakewarden.serve.http.problems import refusal
from lakewarden.serve.refusal import RequestDeclined

T = TypeVar("T")

_THREADS = 8
_CONFIRMED_SECONDS = 1.0
"""How old the last look at the token may be when events are sent."""
_CONFIRMED_IDLE_SECONDS = 5.0
_LAST_SECONDS = 5.0
"""How long the last message may take."""


class ClientGone(Exception):
    """The client has left."""


class Wire(Protocol):
    """How messages reach the client. What is cancelled or timed out was not sent."""

    @property
    def together(self) -> int:
        """Bytes of messages that are sent at once, or all of them or none; 0 for one message at a time."""
        ...

    async def begin(self, place: int | None) -> None:
        """Says where to go on after the initial rows."""
        ...

    async def send(self, messages: Sequence[LiveMessage]) -> None:
        """Returns when the connection has taken them.

        Raises:
            Gone: the client has left.
        """
        ...

    async def left(self) -> None:
        """Returns when the client has left."""
        ...

    async def close(self, status: int) -> None:
        """Ends the stream, for a reason by its status of HTTP; 200 where the server stops."""
        ...


@dataclass(frozen=True)
class Following:
    """What the streams of one process share. `stopping` is set when the process stops."""

    settings: ServeSettings
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    threads: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(_THREADS, "subscriptions"))

    async def blocking(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self.threads, call)


class LiveStream:
    """Follows by `run`, once."""

    def __init__(self, source: LiveSource, wire: Wire, following: Following, request_id: str) -> None:
        self._source = source
        self._wire = wire
        self._following = following
        self._settings = following.settings
        self._request_id = request_id
        self._now = asyncio.get_running_loop().time
        self._place: int | None = None
        """Where who has received everything that was sent goes on; None while initial rows are left."""
        self._sent_at = self._confirmed_at = self._now()

    async def run(self) -> None:
        """Returns when the client has left, the server stops, or an error has ended the subscription."""
        told = asyncio.create_task(self._tell())
        leaving, stopping = asyncio.create_task(self._wire.left()), asyncio.create_task(self._following.stopping.wait())
        try:
            await asyncio.wait((told, leaving, stopping), return_when=asyncio.FIRST_COMPLETED)
            if told.done():
                told.result()
            elif not leaving.done():
                await _cancelled(told)
                await self._end(goodbye(self._place), 200)
        finally:
            for task in (told, leaving, stopping):
                await _cancelled(task)

    async def _tell(self) -> None:
        with suppress(ClientGone):
            try:
                await self._tell_all()
            except (LakewardenError, RequestDeclined) as error:
                status, code = refusal(error)
                await self._end(failed(self._place, code, error.message, self._request_id), status)

    async def _tell_all(self) -> None:
        begun = False
        while True:
            batch = await self._next()
            await self._confirm(_CONFIRMED_IDLE_SECONDS if batch.empty else _CONFIRMED_SECONDS)
            for messages in _in_parts(batch, self._wire.together):
                await self._within(self._wire.send(messages))
                if messages[-1].place is not None:
                    self._place = messages[-1].place
            self._place = batch.place
            if not begun:
                await self._within(self._wire.begin(self._place))
                begun = True
            elif self._now() - self._sent_at >= self._settings.heartbeat_seconds:
                await self._within(self._wire.send([heartbeat(self._place)]))
            if batch.empty:
                await asyncio.sleep(LOOK_SECONDS)

    async def _next(self) -> EventBatch:
        """What the next look brings; a store that is away may come back."""
        since = self._now()
        while True:
            try:
                return await self._following.blocking(self._source.next)
            except Transient:
                if self._now() - since >= self._settings.slow_seconds:
                    raise
            await asyncio.sleep(LOOK_SECONDS)

    async def _confirm(self, age: float) -> None:
        if self._now() - self._confirmed_at >= age:
            await self._following.blocking(self._source.confirm)
            self._confirmed_at = self._now()

    async def _within(self, sending: Awaitable[None]) -> None:
        seconds = self._settings.slow_seconds
        try:
            async with asyncio.timeout(seconds):
                await sending
        except TimeoutError as error:
            raise RequestDeclined(429, f"what was sent was not read for {seconds:g} seconds (serve.slow_seconds)") from error
        self._sent_at = self._now()

    async def _end(self, message: LiveMessage, status: int) -> None:
        with suppress(ClientGone, TimeoutError):
            async with asyncio.timeout(min(_LAST_SECONDS, self._settings.slow_seconds)):
                await self._wire.send([message])
                await self._wire.close(status)


def _in_parts(batch: EventBatch, together: int) -> Iterator[list[LiveMessage]]:
    part: list[LiveMessage] = []
    size = 0
    for message in batch:
        if part and size + len(message.body) > together:
            yield part
            part, size = [], 0
        part.append(message)
        size += len(message.body)
    if part:
        yield part


async def _cancelled(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.wait([task])
