"""The application: its routes, for one open warehouse."""

from __future__ import annotations

import time

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lakewarden.base.clock import NewId
from lakewarden.errors import LakewardenError
from lakewarden.serve.authority import RequestDeclined
from lakewarden.serve.common import Common, Figures, request_id_of
from lakewarden.serve.http.auth import login, logout, refresh
from lakewarden.serve.http.event_stream import EventStreams
from lakewarden.serve.http.files import Files
from lakewarden.serve.http.fleet import fleet, metrics
from lakewarden.serve.http.k3_calls import k3_call
from lakewarden.serve.http.openapi import PATHS, ROUTES, openapi
from lakewarden.serve.http.problems import problem
from lakewarden.serve.http.requests import BodyQueue, lake_of
from lakewarden.serve.http.statements import sql
from lakewarden.serve.http.subscriptions import Following
from lakewarden.serve.http.web_socket import WebSockets

# Each request's id, its line in the log, and its share of `/metrics`.
_ELSEWHERE = "other"
_FILES = "/v1/files"
_STARTS = ("http.response.start", "websocket.accept", "websocket.http.response.start")


class RequestIds:
    """Gives each request an id, the client's own where it sends a UUID in `X-Request-Id`, and its answer the same."""

    def __init__(self, app: ASGIApp, figures: Figures, paths: frozenset[str], new_id: NewId) -> None:
        self._app = app
        self._figures = figures
        self._paths = paths
        self._new_id = new_id

    def _shown(self, path: str) -> str:
        """A path that says nothing of what was asked for: that of a file names a key."""
        if path.startswith(f"{_FILES}/"):
            return _FILES
        return path if path in self._paths else _ELSEWHERE

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get("x-request-id", "")
        state = scope.setdefault("state", {})
        state["request_id"] = request_id = request_id_of(given, self._new_id)
        began, status = time.perf_counter(), 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] in _STARTS:
                status = message.get("status", 101)
                MutableHeaders(scope=message)["X-Request-Id"] = request_id
            await send(message)

        try:
            with self._figures.running.track_inprogress():
                await self._app(scope, receive, sending)
        finally:
            who, path = state.get("user", "-"), self._shown(scope["path"])
            self._figures.note(path, str(status), began, request_id, who, scope.get("method", "WS"), path)


def application(common: Common) -> Starlette:
    """Serves the warehouse, which stays the caller's to close."""
    following = Following(common.lake.warehouse.settings.serve)
    app = Starlette(
        routes=[
            Route("/v1/auth/login", login, methods=["POST"]),
            Route("/v1/auth/refresh", refresh, methods=["POST"]),
            Route("/v1/auth/logout", logout, methods=["POST"]),
            Route("/v1/api/sql", sql, methods=["POST"]),
            Route("/v1/files/{place:path}", Files(), methods=["GET", "PUT", "DELETE"]),
            Route("/v1/subscribe", EventStreams(following), methods=["GET"]),
            WebSocketRoute("/v1/ws", WebSockets(following)),
            Route("/k3/v1/{call}", k3_call, methods=["POST"]),
            Route("/health", health),
            Route("/ready", ready),
            Route("/metrics", metrics),
            Route("/fleet", fleet),
            Route("/openapi.json", openapi),
            *ROUTES,
        ],
        middleware=[Middleware(RequestIds, figures=common.figures, paths=frozenset(PATHS), new_id=common.new_id)],
        exception_handlers=dict.fromkeys(
            (LakewardenError, RequestDeclined, msgspec.DecodeError, HTTPException, Exception), problem
        ),
    )
    app.state.common = common
    app.state.following = following
    app.state.bodies = BodyQueue()
    return app


async def health(request: Request) -> Response:  # noqa: ARG001  # Starlette's form
    """The process answers."""
    return JSONResponse({"status": "ok"})


async def ready(request: Request) -> Response:
    """The warehouse answers; 503 if it does not."""
    await run_in_threadpool(lake_of(request).warehouse.catalog.read)
    return JSONResponse({"status": "ready"})
