"""Each request's id, its line in the log, and its share of `/metrics`."""

from __future__ import annotations

import logging
import time

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lakewarden.base.clock import NewId
from lakewarden.serve.figures import Figures
from lakewarden.serve.request_ids import request_id_of

_LOG = logging.getLogger("lakewarden.serve")
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
            took = time.perf_counter() - began
            path = self._shown(scope["path"])
            self._figures.answered.labels(path, str(status)).inc()
            self._figures.seconds.labels(path).observe(took)
            method = scope.get("method", "WS")
            _LOG.info("%s %s %s %s %s %.1f ms", request_id, state.get("user", "-"), method, path, status, took * 1000)
