"""Errors as HTTP answers: `{"error": {"code", "message", "request_id"}}` with the status that the interface gives the code."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse, Response

from lakewarden.errors import InvalidArgument
from lakewarden.serve.authority import RequestDeclined
from lakewarden.serve.refusals import Refusal

_LOG = logging.getLogger("lakewarden.serve")

_CODES: Mapping[int, str] = {401: "PERMISSION_DENIED", 404: "NOT_FOUND", 405: "UNSUPPORTED", 415: "UNSUPPORTED", 429: "CONFLICT"}
"""What HTTP knows apart, and our codes do not; any other is INVALID_ARGUMENT."""


def problem(request: HTTPConnection, error: Exception) -> Response:
    """The answer to a request that failed."""
    match error:
        case msgspec.ValidationError() | msgspec.DecodeError():
            return _answer(request, 400, InvalidArgument.code, f"the body is not what this call takes: {error}")
        case HTTPException():
            code = _CODES.get(error.status_code, "INVALID_ARGUMENT")
            said = f"{request.scope.get('method', 'GET')} {request.url.path}: {error.detail}"
            return _answer(request, error.status_code, code, said, error.headers)
        case _:
            found, wait = Refusal.of(error), error.retry_after if isinstance(error, RequestDeclined) else 1
            return _answer(request, found.statuses.http, found.code, found.message, retry_after=wait)


def _answer(
    request: HTTPConnection,
    status: int,
    code: str,
    message: str,
    headers: Mapping[str, str] | None = None,
    retry_after: int = 1,
) -> Response:
    if status >= 500:
        _LOG.error("%s %s: %s", request.state.request_id, code, message)
    more = {"WWW-Authenticate": "Bearer"} if status == 401 else {"Retry-After": str(retry_after)} if status in (429, 503) else {}
    content = {"error": {"code": code, "message": message, "request_id": request.state.request_id}}
    return JSONResponse(content, status, headers={**(headers or {}), **more})
