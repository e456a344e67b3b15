"""Errors as clients get them: a status of HTTP, one of gRPC and an SQLSTATE for each of our codes, and for what is declined."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from lakewarden.errors import Canceled, Internal, LakewardenError
from lakewarden.serve.authority import RequestDeclined


class Statuses(NamedTuple):
    """What the protocols have for an error; `grpc` by its name."""

    http: int
    grpc: str
    sqlstate: str


STATUSES: Mapping[str, Statuses] = {
    "SYNTAX_ERROR": Statuses(400, "INVALID_ARGUMENT", "42601"),
    "INVALID_ARGUMENT": Statuses(400, "INVALID_ARGUMENT", "22023"),
    "CONSTRAINT_VIOLATION": Statuses(400, "INVALID_ARGUMENT", "23000"),
    "PERMISSION_DENIED": Statuses(403, "PERMISSION_DENIED", "42501"),
    "NOT_FOUND": Statuses(404, "NOT_FOUND", "42704"),
    "ALREADY_EXISTS": Statuses(409, "ALREADY_EXISTS", "42710"),
    "CONFLICT": Statuses(409, "ABORTED", "40001"),
    "FAILED_PRECONDITION": Statuses(412, "FAILED_PRECONDITION", "55000"),
    "UNSUPPORTED": Statuses(422, "UNIMPLEMENTED", "0A000"),
    "STORAGE_UNAVAILABLE": Statuses(503, "UNAVAILABLE", "58030"),
    "CORRUPT": Statuses(500, "DATA_LOSS", "XX001"),
    "INTERNAL": Statuses(500, "INTERNAL", "XX000"),
}
_CANCELED = Statuses(499, "CANCELLED", "57014")
"""HTTP's is for the log, as other servers have it: the client is not there to read it."""

_DECLINED: Mapping[int, tuple[str, Statuses]] = {
    401: ("PERMISSION_DENIED", Statuses(401, "UNAUTHENTICATED", "28P01")),
    413: ("INVALID_ARGUMENT", Statuses(413, "RESOURCE_EXHAUSTED", "54000")),
    429: ("CONFLICT", Statuses(429, "RESOURCE_EXHAUSTED", "53400")),
}


@dataclass(frozen=True)
class Refusal:
    """An error as the client gets it."""

    code: str
    message: str
    statuses: Statuses

    @classmethod
    def of(cls, error: Exception) -> Refusal:
        match error:
            case LakewardenError():
                statuses = _CANCELED if isinstance(error, Canceled) else STATUSES[error.code]
                return cls(error.code, error.message, statuses)
            case RequestDeclined():
                code, statuses = _DECLINED[error.status]
                return cls(code, error.message, statuses)
            case _:
                why = "a fault of Lakewarden's; the server's log has it under the request id"
                return cls(Internal.code, why, STATUSES[Internal.code])
