"""Each request's id, its line in the log, and its share of `/metrics`."""

from __future__ import annotations

import logging
import re
import time
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lakewarden.clock import random_id

_LOG = logging.getLogger("lakewarden.serve")
_REQUEST_ID = re.compile(r"[0-9a-fA-F-]{8,64}")
"""A client's own id: a UUID or the id of a trace. The audit log keeps it, so it must not hold a user's name."""
_ELSEWHERE = "other"


@dataclass(frozen=True)
class Figures:
    """What `/metrics` shows of one server process. Paths are those of the routes, so that their number is bounded."""

    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    answered: Counter = field(init=False)
    seconds: Histogram = field(init=False)
    running: Gauge = field(init=False)

    def __post_init__(self) -> None:
        for name, made in (
            ("answered", Counter("lakewarden_requests", "Requests answered.", ["path", "status"], registry=self.registry)),
            ("seconds", Histogram("lakewarden_request_seconds", "Seconds to the answer.", ["path"], registry=self.registry)),
            ("running", Gauge("lakewarden_requests_running", "Requests that run now.", registry=self.registry)),
        ):
            object.__setattr__(self, name, made)


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
        state["request_id"] = request_id = given if _REQUEST_ID.fullmatch(given) else random_id()
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
