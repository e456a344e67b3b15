"""Subscriptions over HTTP: the parameters, the messages that a subscriber gets, and one subscription as the server follows it.

`event_stream` and `web_socket` are the two ways to get them.
"""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from tempfile import SpooledTemporaryFile
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import HTTPConnection

from lakewarden.base.json_values import json_row
from lakewarden.base.quantities import portions
from lakewarden.base.setting_sections import ServeSettings
from lakewarden.client import Lakehouse
from lakewarden.errors import InvalidArgument, LakewardenError, StorageUnavailable, Transient
from lakewarden.serve.authority import Authority, RequestDeclined
from lakewarden.serve.common import Common
from lakewarden.serve.refusals import Refusal
from lakewarden.serve.tokens import AccessToken
from lakewarden.tables.changes.follower import Manner
from lakewarden.tables.changes.log_reader import Event
from lakewarden.tables.changes.subscription import Subscription

# The parameters of a subscription: the query, and where to go on.
PARAMETERS = ("sql", "from_seq", "namespace")
_SEQ = re.compile(r"-?[0-9]{1,19}")


@dataclass(frozen=True)
class LiveRequest:
    sql: str
    from_seq: int | None = None
    namespace: str | None = None


def live_request(connection: HTTPConnection) -> LiveRequest:
    """The parameters of a request. `Last-Event-ID` is newer than `from_seq`: it comes with the same address again.

    Raises:
        InvalidArgument: `sql` is missing, a parameter is unknown or given twice, or a place is not a number.
    """
    given = connection.query_params.multi_items()
    names = [name for name, _ in given]
    for name in names:
        if name not in PARAMETERS:
            raise InvalidArgument(f"there is no parameter {name!r}; a subscription takes {', '.join(PARAMETERS)}")
        if names.count(name) > 1:
            raise InvalidArgument(f"the parameter {name!r} is given {names.count(name)} times")
    found = dict(given)
    if "sql" not in found:
        raise InvalidArgument("the parameter 'sql' is missing: the query to subscribe to")
    place = connection.headers.get("last-event-id") or found.get("from_seq")
    return LiveRequest(found["sql"], None if place is None else _seq(place), found.get("namespace"))


def _seq(text: str) -> int:
    if not _SEQ.fullmatch(text):
        raise InvalidArgument(f"{text[:40]!r} is not a place to go on after: from_seq and Last-Event-ID are whole numbers")
    return int(text)


# What a subscriber is sent: an object of JSON for each event, and for what happens to the subscription itself.
_IN_MEMORY = 256 << 10
"""Bytes of encoded events that wait in memory for a client to read them; more of them wait in a temporary file."""


class LiveMessage(NamedTuple):
    """`body` is one line of JSON. Who has received the message goes on after `place`; None while initial rows are left."""

    kind: str
    place: int | None
    body: bytes


def heartbeat(place: int | None) -> LiveMessage:
    return _said("heartbeat", place, {})


def goodbye(place: int | None) -> LiveMessage:
    return _said("goodbye", place, {})


def failed(place: int | None, code: str, message: str, request_id: str) -> LiveMessage:
    return _said("error", place, {"error": {"code": code, "message": message, "request_id": request_id}})


def _said(kind: str, place: int | None, more: dict[str, dict[str, str]]) -> LiveMessage:
    return LiveMessage(kind, place, msgspec.json.encode({"kind": kind, "seq": place, **more}))


class EventBatch:
    """Events in order, encoded. `place` is the one behind the last of them."""

    def __init__(self, events: Sequence[Event], place: int | None) -> None:
        self.place = place
        self.empty = not events
        self._file = SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115  # closed by `close`
        for message in _encoded(events, place):
            where = b"" if message.place is None else b"%d" % message.place
            self._file.write(b"%s %s %s\n" % (message.kind.encode(), where, message.body))
        self._file.seek(0)

    def __iter__(self) -> Iterator[LiveMessage]:
        for line in self._file:
            kind, where, body = line.rstrip(b"\n").split(b" ", 2)
            yield LiveMessage(kind.decode(), int(where) if where else None, body)

    def close(self) -> None:
        self._file.close()


def _encoded(events: Sequence[Event], place: int | None) -> Iterable[LiveMessage]:
    """The last of the initial rows tells where they end, so that who got some of them alone begins again."""
    for number, event in enumerate(events, 1):
        body = msgspec.json.encode({"kind": event.kind, "seq": event.seq, "row": json_row(event.row)})
        if event.kind == "initial":
            yield LiveMessage(event.kind, place if number == len(events) else None, body)
        else:
            yield LiveMessage(event.kind, event.seq, body)


# A subscription as the server follows it: in threads, one call at a time, and until its token ends.
_LOG = logging.getLogger("lakewarden.serve")
_POLL_BYTES = 256 << 10
"""Bytes of the log that one look takes: what a client does not read yet stays in the log, not in memory."""

LOOK_SECONDS = 0.5
"""Between two looks at a log, for all subscribers of it."""


class LiveSource:
    """Opened by its constructor, which blocks as every call does. Safe for threads."""

    def __init__(self, lake: Lakehouse, authority: Authority, token: AccessToken, request: LiveRequest) -> None:
        session = lake.sessions.served(token.principal, request.namespace)
        self._subscription: Subscription = session.followed(
            request.sql, Manner(from_seq=request.from_seq, poll_bytes=_POLL_BYTES)
        )
        self._authority = authority
        self._token = token
        self._lock = threading.Lock()
        self._batch: EventBatch | None = None

    def next(self) -> EventBatch:
        """What came since the last batch, which works no longer then.

        Raises:
            LakewardenError: as `Subscription.poll`.
        """
        with self._lock:
            events = self._subscription.poll(LOOK_SECONDS)
            self._end_batch()
            self._batch = EventBatch(events, self._subscription.seq)
            return self._batch

    def confirm(self) -> None:
        """Raises Declined: the token has expired, or was revoked."""
        self._authority.confirm(self._token)

    def close(self) -> None:
        """Ends the subscription, after the call that runs."""
        with self._lock:
            self._end_batch()
            try:
                self._subscription.close()
            except StorageUnavailable as error:  # its record goes with time
                _LOG.warning("%s: %s", self._subscription.id, error.message)

    def _end_batch(self) -> None:
        if self._batch is not None:
            self._batch.close()


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
                found = Refusal.of(error)
                await self._end(failed(self._place, found.code, found.message, self._request_id), found.statuses.http)

    async def _tell_all(self) -> None:
        begun = False
        while True:
            batch = await self._next()
            await self._confirm(_CONFIRMED_IDLE_SECONDS if batch.empty else _CONFIRMED_SECONDS)
            for messages in portions(batch, lambda message: len(message.body), self._wire.together):
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


async def _cancelled(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.wait([task])


# A subscription for as long as a client follows it: counted, and closed whatever happens.
@asynccontextmanager
async def opened(common: Common, token: AccessToken, request: LiveRequest, following: Following) -> AsyncIterator[LiveSource]:
    """The subscription, whose initial rows are ready.

    Raises:
        Declined: the user has too many requests or subscriptions.
        LakewardenError: as `SqlSession.subscribe`.
    """
    user = token.principal.user
    with common.allowance.following(user):
        with common.allowance.of(user):
            source = await run_in_threadpool(partial(LiveSource, common.lake, common.authority, token, request))
        try:
            yield source
        finally:
            await asyncio.shield(following.blocking(source.close))
