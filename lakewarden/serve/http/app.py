"""The application: its routes, for one open warehouse."""

from __future__ import annotations

import msgspec
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute

from lakewarden.errors import LakewardenError
from lakewarden.serve.common import Common
from lakewarden.serve.figures import Figures
from lakewarden.serve.http import pages
from lakewarden.serve.http.auth import login, logout, refresh
from lakewarden.serve.http.files import Files
from lakewarden.serve.http.k3_calls import k3_call
from lakewarden.serve.http.live.event_stream import EventStreams
from lakewarden.serve.http.live.stream import Following
from lakewarden.serve.http.live.web_socket import WebSockets
from lakewarden.serve.http.observation import RequestIds
from lakewarden.serve.http.openapi import PATHS, openapi
from lakewarden.serve.http.problems import problem
from lakewarden.serve.http.requests import lake_of
from lakewarden.serve.http.statements import sql
from lakewarden.serve.refusal import RequestDeclined


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
            Route("/openapi.json", openapi),
            *pages.ROUTES,
        ],
        middleware=[Middleware(RequestIds, figures=common.figures, paths=frozenset(PATHS), new_id=common.new_id)],
        exception_handlers=dict.fromkeys(
            (LakewardenError, RequestDeclined, msgspec.DecodeError, HTTPException, Exception), problem
        ),
    )
    app.state.lake = common.lake
    app.state.authority = common.authority
    app.state.allowance = common.allowance
    app.state.figures = common.figures
    app.state.following = following
    app.state.writes = common.writes
    return app


async def health(request: Request) -> Response:  # noqa: ARG001  # Starlette's form
    """The process answers."""
    return JSONResponse({"status": "ok"})


async def ready(request: Request) -> Response:
    """The warehouse answers; 503 if it does not."""
    await run_in_threadpool(lake_of(request).warehouse.catalog.read)
    return JSONResponse({"status": "ready"})


async def metrics(request: Request) -> Response:
    """Figures of the process that answers, for Prometheus."""
    figures = request.app.state.figures
    assert isinstance(figures, Figures), "the application is made with one"
    return Response(generate_latest(figures.registry), headers={"Content-Type": CONTENT_TYPE_LATEST})
