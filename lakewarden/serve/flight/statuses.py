"""Errors as statuses of gRPC: our code begins the message, and is a detail of its own for programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import grpc

from lakewarden.errors import Canceled, Internal, LakewardenError
from lakewarden.serve.flight.messages import ErrorInfo, RequestInfo, Status, wrapped
from lakewarden.serve.flight.wire import encoded
from lakewarden.serve.refusal import RequestDeclined

STATUS: Mapping[str, grpc.StatusCode] = {
    "SYNTAX_ERROR": grpc.StatusCode.INVALID_ARGUMENT,
    "INVALID_ARGUMENT": grpc.StatusCode.INVALID_ARGUMENT,
    "CONSTRAINT_VIOLATION": grpc.StatusCode.INVALID_ARGUMENT,
    "PERMISSION_DENIED": grpc.StatusCode.PERMISSION_DENIED,
    "NOT_FOUND": grpc.StatusCode.NOT_FOUND,
    "ALREADY_EXISTS": grpc.StatusCode.ALREADY_EXISTS,
    "CONFLICT": grpc.StatusCode.ABORTED,
    "FAILED_PRECONDITION": grpc.StatusCode.FAILED_PRECONDITION,
    "UNSUPPORTED": grpc.StatusCode.UNIMPLEMENTED,
    "STORAGE_UNAVAILABLE": grpc.StatusCode.UNAVAILABLE,
    "CORRUPT": grpc.StatusCode.DATA_LOSS,
    "INTERNAL": grpc.StatusCode.INTERNAL,
}
_DECLINED: Mapping[int, tuple[str, grpc.StatusCode]] = {
    401: ("PERMISSION_DENIED", grpc.StatusCode.UNAUTHENTICATED),
    413: ("INVALID_ARGUMENT", grpc.StatusCode.RESOURCE_EXHAUSTED),
    429: ("CONFLICT", grpc.StatusCode.RESOURCE_EXHAUSTED),
}
_LONGEST = 1000
"""Characters of a message. It comes in headers, of which clients take 8 KiB."""
_DETAILS = "grpc-status-details-bin"


@dataclass(frozen=True)
class FlightProblem:
    """A request that failed, as the client is told."""

    code: str
    status: grpc.StatusCode
    message: str

    @classmethod
    def of(cls, error: Exception) -> FlightProblem:
        match error:
            case Canceled():
                return cls(error.code, grpc.StatusCode.CANCELLED, error.message)
            case LakewardenError():
                return cls(error.code, STATUS[error.code], error.message)
            case RequestDeclined():
                return cls(*_DECLINED[error.status], error.message)
            case _:
                why = "a fault of Lakewarden's; the server's log has it under the request id"
                return cls(Internal.code, grpc.StatusCode.INTERNAL, why)

    @property
    def text(self) -> str:
        cut = self.message if len(self.message) <= _LONGEST else f"{self.message[:_LONGEST]}…"
        return f"{self.code}: {cut}"

    def details(self, request_id: str) -> tuple[str, bytes]:
        """The metadata that hold the code and the request id, as `google.rpc.Status` has them."""
        number: int = self.status.value[0]
        details = (wrapped(ErrorInfo(self.code, "lakewarden"), "google.rpc."), wrapped(RequestInfo(request_id), "google.rpc."))
        return _DETAILS, encoded(Status(number, self.text, details))
