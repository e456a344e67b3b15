"""Errors as HTTP answers: `{"error": {"code", "message", "request_id"}}` with the status that the interface gives the code."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse, Response

from lakewarden.errors import Canceled, InvalidArgument, LakewardenError
from lakewarden.serve.authority import RequestDeclined

_LOG = logging.getLogger("lakewarden.serve")

STATUS: Mapping[str, int] = {
    "SYNTAX_ERROR": 400,
    "INVALID_ARGUMENT": 400,
    "CONSTRAINT_VIOLATION": 400,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "ALREADY_EXISTS": 409,
    "CONFLICT": 409,
    "FAILED_PRECONDITION": 412,
    "UNSUPPORTED": 422,
    "STORAGE_UNAVAILABLE": 503,
    "CORRUPT": 500,
    "INTERNAL": 500,
}
_CODES: Mapping[int, str] = {
    401: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    405: "UNSUPPORTED",
    413: "INVALID_ARGUMENT",
    415: "UNSUPPORTED",
    429: "CONFLICT",
}
"""What HTTP knows apart, and our codes do not."""
_LEFT = 499
"""For the log, as other servers have it: the client is not there to read it."""


def refusal(error: LakewardenError | RequestDeclined) -> tuple[int, str]:
    """The status and the code of an error that is raised on purpose."""
    match error:
        case Canceled():
            return _LEFT, error.code
        case LakewardenError():
            return STATUS[error.code], error.code
        case RequestDeclined():
            return error.status, _CODES[error.status]


def problem(request: HTTPConnection, error: Exception) -> Response:
    """The answer to a request that failed."""
    match error:
        case LakewardenError():
            return _answer(request, *refusal(error), error.message)
        case RequestDeclined():
            return _answer(request, *refusal(error), error.message, retry_after=error.retry_after)
        case msgspec.ValidationError() | msgspec.DecodeError():
            return _answer(request, 400, InvalidArgument.code, f"the body is not what this call takes: {error}")
        case HTTPException():
            code = _CODES.get(error.status_code, "INVALID_ARGUMENT")
            said = f"{request.scope.get('method', 'GET')} {request.url.path}: {error.detail}"
            return _answer(request, error.status_code, code, said, error.headers)
        case _:
            return _answer(request, 500, "INTERNAL", "a fault of Lakewarden's; the server's log has it under the request id")


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
