"""`/openapi.json`: generated from the types that read the bodies, and from those of the answers."""

from __future__ import annotations

import re
from functools import cache
from pathlib import PurePosixPath
from types import UnionType
from typing import TypedDict, get_args, get_origin

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from swagger_ui_bundle import swagger_ui_path

from lakewarden.base import VERSION
from lakewarden.base.json_values import Json
from lakewarden.client.answers import Answer, MessageAnswer
from lakewarden.serve.authority import LoginAnswer
from lakewarden.serve.http.auth import LoginRequest, RefreshRequest
from lakewarden.serve.http.event_stream import EVENT_STREAM
from lakewarden.serve.http.files import PARAMETERS
from lakewarden.serve.http.k3_calls import ANSWERS, REQUESTS, snake
from lakewarden.serve.http.statements import ARROW, SqlRequest
from lakewarden.tables.rows.files import FileRef

_SCHEMAS = "#/components/schemas/"
_ERRORS = ("400", "401", "403", "404", "409", "412", "413", "422", "429", "503")
_SQL = "/v1/api/sql"
_LOGOUT = "/v1/auth/logout"
_BODIES: dict[str, type[msgspec.Struct]] = {
    "/v1/auth/login": LoginRequest,
    "/v1/auth/refresh": RefreshRequest,
    _SQL: SqlRequest,
    **{f"/k3/v1/{call}": body for call, body in REQUESTS.items()},
}
_READ = ("/health", "/ready", "/openapi.json")
_FILE = "/v1/files/{namespace}/{table}/{key}/{column}"
_SOCKET = "/v1/ws"
_FOLLOWED = ("/v1/subscribe", _SOCKET)
PATHS = (*_BODIES, _LOGOUT, *_FOLLOWED, *_READ, "/metrics", "/fleet", "/docs")
"""The paths of all calls."""
_OPEN = ("/v1/auth/login", "/v1/auth/refresh")


_TAGS = {_SQL: "sql"} | dict.fromkeys(_FOLLOWED, "subscriptions")
_TEXT: Json = {"type": "string"}
_BINARY: Json = {"type": "string", "format": "binary"}


class Problem(TypedDict):
    code: str
    message: str
    request_id: str


class Error(TypedDict):
    error: Problem


_ANSWERS: dict[str, object] = {
    "/v1/auth/login": LoginAnswer,
    "/v1/auth/refresh": LoginAnswer,
    _LOGOUT: MessageAnswer,
    **{f"/k3/v1/{call}": kind for call, kind in ANSWERS.items()},
}


async def openapi(request: Request) -> Response:  # noqa: ARG001  # Starlette's form
    return JSONResponse(document())


@cache
def document() -> Json:
    """The OpenAPI document of every call."""
    kinds = [*_BODIES.values(), *(one for kind in (*_ANSWERS.values(), Answer, FileRef) for one in _each(kind)), Error]
    _, schemas = msgspec.json.schema_components(kinds, schema_hook=_anything, ref_template=_SCHEMAS + "{name}")
    paths: dict[str, Json] = {path: {"post": _post(path)} for path in (*_BODIES, _LOGOUT)}
    paths |= {path: {"get": _subscription(path)} for path in _FOLLOWED}
    paths[_FILE] = {"put": _file("put", _schema(FileRef)), "get": _file("get"), "delete": _file("delete", _schema(MessageAnswer))}
    paths |= {path: {"get": _operation(path, _answer({"type": "object"}), open_=True, security=[])} for path in _READ}
    paths["/metrics"] = {"get": _operation("/metrics", _answer(_TEXT, kind="text/plain"), security=[{}, {"bearer": []}])}
    paths["/fleet"] = {"get": _operation("/fleet", _answer(_TEXT, kind="text/html"), security=[{"bearer": []}])}
    bearer: Json = {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Lakewarden", "version": VERSION},
        "paths": paths,
        "components": {"schemas": {**schemas, "SqlAnswer": _sql_answer()}, "securitySchemes": {"bearer": bearer}},
        "security": [{"bearer": []}],
    }


def _operation(path: str, done: Json, *, open_: bool = False, status: str = "200", **more: Json) -> Json:
    """A call with its answer, and what else there is to say of it.

    Args:
        open_: whether anybody may call it, and it always answers.
    """
    answers = {status: done} | ({} if open_ else {one: _answer(_schema(Error), "declined") for one in _ERRORS})
    said = {key: value for key, value in more.items() if value is not None}
    return {**_named(path), "responses": answers, **said}


def _post(path: str) -> Json:
    body = _BODIES.get(path)
    security: Json = [] if path in _OPEN else None
    wanted: Json = None if body is None else {"required": True, "content": _content(_schema(body))}
    if path != _SQL:
        return _operation(path, _answer(_schema(_ANSWERS[path])), requestBody=wanted, security=security)
    answered = _content({"$ref": f"{_SCHEMAS}SqlAnswer"}) | _content(_BINARY, ARROW)
    return _operation(path, {"description": "done", "content": answered}, requestBody=wanted)


def _subscription(path: str) -> Json:
    """A stream of events, or what takes the connection over."""
    done: Json = {"description": "a WebSocket: a message of JSON for each event"}
    if path != _SOCKET:
        done = _answer(_TEXT, "server-sent events: JSON for each", EVENT_STREAM)
    kinds = {"sql": "string", "from_seq": "integer", "namespace": "string"}
    parameters: list[Json] = [
        {"name": name, "in": "query", "required": name == "sql", "schema": {"type": kind}} for name, kind in kinds.items()
    ]
    return _operation(path, done, status="101" if path == _SOCKET else "200", parameters=parameters)


def _file(method: str, answered: Json = None) -> Json:
    """Of the file that a row refers to, which is the answer where none is named."""
    whole = _content(_BINARY, "application/octet-stream")
    done: Json = {"description": "the file, as an attachment", "content": whole} if answered is None else _answer(answered)
    inside: list[Json] = [{"name": one, "in": "path", "required": True, "schema": _TEXT} for one in re.findall(r"{(\w+)}", _FILE)]
    given: list[Json] = [{"name": one, "in": "query", "schema": _TEXT, "description": what} for one, what in PARAMETERS.items()]
    sent: Json = {"required": True, "content": whole} if method == "put" else None
    parameters: Json = [*inside, *given]
    return _operation(_FILE, done, operationId=f"{method}_file", tags=["files"], parameters=parameters, requestBody=sent)


def _named(path: str) -> dict[str, Json]:
    """How clients that are made of the document name the call, and the group that it is in."""
    group, name = path.split("/")[1], PurePosixPath(path).stem
    tag = {"k3": "k3", "v1": _TAGS.get(path, "auth")}.get(group, "server")
    return {"operationId": snake(name), "tags": [tag]}


def _each(kind: object) -> tuple[object, ...]:
    """The types of which an answer is one. msgspec takes no union of several objects."""
    return get_args(kind) if isinstance(kind, UnionType) else (kind,)


def _schema(kind: object) -> Json:
    if isinstance(kind, UnionType):
        return {"anyOf": [_schema(one) for one in get_args(kind)]}
    if get_origin(kind) is list:
        return {"type": "array", "items": _schema(get_args(kind)[0])}
    assert isinstance(kind, type), f"an answer is an object or a list of them, not {kind}"
    return {"$ref": f"{_SCHEMAS}{kind.__name__}"}


def _sql_answer() -> Json:
    return {
        "title": "SqlAnswer",
        "type": "object",
        "required": ["results", "took_ms"],
        "properties": {"results": {"type": "array", "items": _schema(Answer)}, "took_ms": {"type": "number"}},
    }


def _answer(schema: Json, description: str = "done", kind: str = "application/json") -> Json:
    return {"description": description, "content": _content(schema, kind)}


def _content(schema: Json, kind: str = "application/json") -> dict[str, Json]:
    return {kind: {"schema": schema}}


def _anything(kind: type) -> dict[str, object]:  # noqa: ARG001  # msgspec asks for `object` alone
    return {"description": "any value of JSON"}


# `/docs`: a page to try the calls, made of files that are installed with the server, and no others.
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
