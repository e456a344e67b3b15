"""Each request's id, its line in the log, and its share of `/metrics`."""

from __future__ import annotations

import logging
import time

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lakewarden.serve.figures import Figures
from lakewarden.serve.request_ids import request_id_of

_LOG = logging.getLogger("lakewarden.serve")
_ELSEWHERE = "other"


class Observed:
    """Gives each request an id, the client's own where it sends a UUID in `X-Request-Id`, and its answer the same."""

    def __init__(self, app: ASGIApp, figures: Figures, paths: frozenset[str]) -> None:
        self._app = app
        self._figures = figures
        self._paths = paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get("x-request-id", "")
        state = scope.setdefault("state", {})
        state["request_id"] = request_id = request_id_of(given)
        began, status = time.perf_counter(), 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["X-Request-Id"] = request_id
            await send(message)

        try:
            with self._figures.running.track_inprogress():
                await self._app(scope, receive, sending)
        finally:
            took = time.perf_counter() - began
            path = scope["path"] if scope["path"] in self._paths else _ELSEWHERE
            self._figures.answered.labels(path, str(status)).inc()
            self._figures.seconds.labels(path).observe(took)
            _LOG.info("%s %s %s %s %s %.1f ms", request_id, state.get("user", "-"), scope["method"], path, status, took * 1000)
