"""`/docs`: a page to try the calls, made of files that are installed with the server, and no others."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from swagger_ui_bundle import swagger_ui_path

_PAGE = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Lakewarden</title><link rel="stylesheet" href="/docs/files/swagger-ui.css"></head>
<body><div id="calls"></div><script src="/docs/files/swagger-ui-bundle.js"></script><script src="/docs/start.js"></script></body>
</html>
"""
_START = 'SwaggerUIBundle({url: "/openapi.json", dom_id: "#calls"});\n'
_ONLY_OURS = {"Content-Security-Policy": "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:"}


async def page(request: Request) -> Response:  # noqa: ARG001  # Starlette's form
    return HTMLResponse(_PAGE, headers=_ONLY_OURS)


async def start(request: Request) -> Response:  # noqa: ARG001  # as above
    return Response(_START, media_type="text/javascript")


ROUTES: tuple[BaseRoute, ...] = (
    Route("/docs", page),
    Route("/docs/start.js", start),
    Mount("/docs/files", StaticFiles(directory=swagger_ui_path)),
)
