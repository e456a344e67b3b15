"""`/openapi.json`: generated from the types that read the bodies."""

from __future__ import annotations

from functools import cache

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from lakewarden.json_values import Json
from lakewarden.serve.http.auth import LoginRequest, RefreshRequest
from lakewarden.serve.http.k3_calls import REQUESTS
from lakewarden.serve.http.statements import ARROW, SqlRequest
from lakewarden.version import VERSION

_ERRORS = ("400", "401", "403", "404", "409", "412", "413", "422", "429", "503")
_BODIES: dict[str, type[msgspec.Struct]] = {
    "/v1/auth/login": LoginRequest,
    "/v1/auth/refresh": RefreshRequest,
    "/v1/api/sql": SqlRequest,
    **{f"/k3/v1/{call}": body for call, body in REQUESTS.items()},
}
_READ = ("/health", "/ready", "/openapi.json")
PATHS = (*_BODIES, "/v1/auth/logout", *_READ, "/metrics", "/docs")
"""The paths of all calls."""
_OPEN = ("/v1/auth/login", "/v1/auth/refresh")
_ERROR: Json = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message", "request_id"],
            "properties": {"code": {"type": "string"}, "message": {"type": "string"}, "request_id": {"type": "string"}},
        }
    },
}


async def openapi(request: Request) -> Response:  # noqa: ARG001  # Starlette's form
    return JSONResponse(document())


@cache
def document() -> Json:
    """The OpenAPI document of every call."""
    _, schemas = msgspec.json.schema_components(
        _BODIES.values(), schema_hook=_anything, ref_template="#/components/schemas/{name}"
    )
    paths: dict[str, Json] = {path: {"post": _operation(path, body)} for path, body in _BODIES.items()}
    paths["/v1/auth/logout"] = {"post": _operation("/v1/auth/logout", None)}
    paths |= {path: {"get": {"responses": {"200": _json({})}, "security": []}} for path in _READ}
    bearer: Json = {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Lakewarden", "version": VERSION},
        "paths": paths,
        "components": {"schemas": {**schemas, "Error": _ERROR}, "securitySchemes": {"bearer": bearer}},
        "security": [{"bearer": []}],
    }


def _operation(path: str, body: type[msgspec.Struct] | None) -> Json:
    answers: dict[str, Json] = {"200": _json({})}
    if body is SqlRequest:
        arrow: Json = {"schema": {"type": "string", "format": "binary"}}
        answers["200"] = {"description": "done", "content": {"application/json": {"schema": {}}, ARROW: arrow}}
    answers |= {status: _json({"$ref": "#/components/schemas/Error"}, "declined") for status in _ERRORS}
    operation: dict[str, Json] = {"operationId": path.strip("/").replace("/", "_"), "responses": answers}
    if body is not None:
        schema: Json = {"$ref": f"#/components/schemas/{body.__name__}"}
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    if path in _OPEN:
        operation["security"] = []
    return operation


def _json(schema: Json, description: str = "done") -> Json:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _anything(kind: type) -> dict[str, object]:  # noqa: ARG001  # msgspec asks for `object` alone
    return {"description": "any value of JSON"}
