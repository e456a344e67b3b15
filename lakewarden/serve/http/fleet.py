"""`GET /fleet`, the page of all tables, for a dba; and `GET /metrics`, which shows tables to a dba's or a scrape token alone."""

from __future__ import annotations

import hmac
import os
from pathlib import Path

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from lakewarden.catalog.access import ADMINS
from lakewarden.client.fleet_metrics import metrics_text
from lakewarden.client.fleet_page import HEADERS, UI, fleet_page
from lakewarden.errors import InvalidArgument, PermissionDenied
from lakewarden.serve.http.requests import admitted, common_of, lake_of

_SHORTEST = 16
"""Signs of a scrape token: a short one is guessed."""


async def fleet(request: Request) -> Response:
    """The page of the fleet, as `lakewarden report` writes it."""
    await _check_dba(request)
    found = await run_in_threadpool(lake_of(request).fleet)
    page = await run_in_threadpool(fleet_page, found, os.environ.get("LAKEWARDEN_DAGSTER_URL") or UI)
    return HTMLResponse(page, headers=HEADERS)


async def metrics(request: Request) -> Response:
    """Figures of the process that answers, for Prometheus; with a token that may see them, those of each table too."""
    text = generate_latest(common_of(request).figures.registry).decode()
    if "authorization" in request.headers:
        if not await run_in_threadpool(_is_scraper, request):
            await _check_dba(request)
        text += await run_in_threadpool(lambda: metrics_text(lake_of(request).fleet()))
    return Response(text, headers={"Content-Type": CONTENT_TYPE_LATEST})


async def _check_dba(request: Request) -> None:
    """Raises:
    RequestDeclined: the request has no token that works.
    PermissionDenied: its role may not see all tables and their users.
    """
    async with admitted(request) as principal:
        if principal.role not in ADMINS:
            raise PermissionDenied(f"role {principal.role} may not see the whole warehouse: that takes role dba or system")


def _is_scraper(request: Request) -> bool:
    """Whether the request has the token of `serve.scrape_token_file`, which is read each time: it may be changed while we serve.

    Raises:
        InvalidArgument: the file cannot be read, or the token in it is too short.
    """
    name = lake_of(request).warehouse.settings.serve.scrape_token_file
    if not name:
        return False
    try:
        token = Path(name).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"serve.scrape_token_file {name!r} cannot be read: {error}") from error
    if len(token) < _SHORTEST:
        raise InvalidArgument(f"the token in serve.scrape_token_file {name!r} has fewer than {_SHORTEST} signs")
    scheme, _, given = request.headers["authorization"].partition(" ")
    return scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), token.encode())
