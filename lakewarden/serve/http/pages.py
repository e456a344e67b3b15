"""`/docs`: a page to try the calls, made of files that are installed with the server, and no others."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from swagger_ui_bundle import swagger_ui_path

from lakewarden.base.json_values import Json
from lakewarden.serve.http.openapi import document

_PAGE = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Lakewarden</title><link rel="stylesheet" href="/docs/files/swagger-ui.css"></head>
<body><div id="calls"></div><script src="/docs/files/swagger-ui-bundle.js"></script><script src="/docs/start.js"></script></body>
</html>
"""
_START = 'SwaggerUIBundle({url: "/docs/calls.json", dom_id: "#calls"});\n'
_NULL: Json = {"type": "null"}
_ONLY_OURS = {"Content-Security-Policy": "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:"}


async def page(request: Request) -> Response:  # noqa: ARG001  # Starlette's form
    return HTMLResponse(_PAGE, headers=_ONLY_OURS)


async def calls(request: Request) -> Response:  # noqa: ARG001  # as above
    """`/openapi.json` as OpenAPI 3.0 has it: the page of swagger-ui-bundle shows no later version."""
    whole = document()
    assert isinstance(whole, dict), "an OpenAPI document"
    return JSONResponse({**{key: _as_3_0(value) for key, value in whole.items()}, "openapi": "3.0.3"})


def _as_3_0(value: Json) -> Json:
    """Without the type `null`, which OpenAPI 3.0 writes as `nullable`."""
    if isinstance(value, list):
        return [_as_3_0(one) for one in value]
    if not isinstance(value, dict):
        return value
    found = {key: _as_3_0(one) for key, one in value.items()}
    kinds = found.get("anyOf")
    if isinstance(kinds, list) and _NULL in kinds:
        found |= {"anyOf": [kind for kind in kinds if kind != _NULL], "nullable": True}
    return found


async def start(request: Request) -> Response:  # noqa: ARG001  # as above
    return Response(_START, media_type="text/javascript")


ROUTES: tuple[BaseRoute, ...] = (
    Route("/docs", page),
    Route("/docs/start.js", start),
    Route("/docs/calls.json", calls),
    Mount("/docs/files", StaticFiles(directory=swagger_ui_path)),
)
