"""`/v1/ws`: the same by WebSocket, a message of text for each event."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from lakewarden.errors import LakewardenError
from lakewarden.serve.authority import RequestDeclined
from lakewarden.serve.http.problems import problem
from lakewarden.serve.http.requests import caller, common_of
from lakewarden.serve.http.subscriptions import ClientGone, Following, LiveMessage, LiveStream, live_request, opened

_BEARER = "bearer"
"""The subprotocol of browsers, which let a page set no header: its token is named as another one behind it."""
_STATUS_CODES = 4000
"""Added to a status of HTTP, it is one of the codes that WebSocket leaves to applications."""
_RESTART = 1012


@dataclass(frozen=True)
class WebSockets:
    """The endpoint, as an ASGI application."""

    following: Following

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        socket = WebSocket(scope, receive, send)
        try:
            token = await caller(socket, _token_of(socket))
            async with opened(common_of(socket), token, live_request(socket), self.following) as source:
                await socket.accept(_BEARER if _BEARER in socket.scope["subprotocols"][:1] else None)
                await LiveStream(source, _Socket(socket), self.following, socket.state.request_id).run()
        except (LakewardenError, RequestDeclined, HTTPException) as error:
            await socket.send_denial_response(problem(socket, error))


def _token_of(socket: WebSocket) -> str | None:
    match socket.scope["subprotocols"]:
        case [name, token] if name == _BEARER:
            return f"Bearer {token}"
        case _:
            return None


@dataclass(frozen=True)
class _Socket:
    socket: WebSocket
    together: int = 0

    async def begin(self, place: int | None) -> None:
        """The first heartbeat will tell."""

    async def send(self, messages: Sequence[LiveMessage]) -> None:
        try:
            for message in messages:
                await self.socket.send_text(message.body.decode())
        except WebSocketDisconnect as error:
            raise ClientGone from error

    async def left(self) -> None:
        """What a client sends meanwhile has no meaning, and is not kept."""
        while (await self.socket.receive())["type"] != "websocket.disconnect":
            pass

    async def close(self, status: int) -> None:
        await self.socket.close(_RESTART if status == 200 else _STATUS_CODES + status)
