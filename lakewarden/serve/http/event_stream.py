"""`GET /v1/subscribe`: server-sent events, as browsers and `curl -N` read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from lakewarden.serve.http.requests import caller, common_of
from lakewarden.serve.http.subscriptions import Following, LiveMessage, LiveStream, live_request, opened

EVENT_STREAM = "text/event-stream"
_HEADERS = (
    (b"content-type", EVENT_STREAM.encode()),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # nginx would hold events back
)
_RETRY_MS = 1000


@dataclass(frozen=True)
class EventStreams:
    """The endpoint, as an ASGI application."""

    following: Following

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        if request.method == "HEAD":
            raise HTTPException(405, "a subscription has no answer without its events")
        token = await caller(request)
        async with opened(common_of(request), token, live_request(request), self.following) as source:
            await send({"type": "http.response.start", "status": 200, "headers": [*_HEADERS]})
            wire = _EventStream(receive, send)
            await LiveStream(source, wire, self.following, request.state.request_id).run()


@dataclass(frozen=True)
class _EventStream:
    receive: Receive
    put: Send
    together: int = 64 << 10

    async def begin(self, place: int | None) -> None:
        """A browser keeps the id of an event without data, and shows nothing of it."""
        await self._write(f"retry: {_RETRY_MS}\nid: {'' if place is None else place}\n\n".encode())

    async def send(self, messages: Sequence[LiveMessage]) -> None:
        await self._write(b"".join(map(_frame, messages)))

    async def left(self) -> None:
        while (await self.receive())["type"] != "http.disconnect":
            pass  # what a client sends behind its request has no meaning

    async def close(self, status: int) -> None:
        """The last event has told why."""
        await self.put({"type": "http.response.body", "body": b"", "more_body": False})

    async def _write(self, frames: bytes) -> None:
        await self.put({"type": "http.response.body", "body": frames, "more_body": True})


def _frame(message: LiveMessage) -> bytes:
    where = b"" if message.place is None else b"id: %d\n" % message.place
    if message.kind == "heartbeat":
        return b": heartbeat\n%s\n" % where
    return b"event: %s\n%sdata: %s\n\n" % (message.kind.encode(), where, message.body)
