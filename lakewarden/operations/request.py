"""The request for an operation, as a call makes it and a job stores it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import TYPE_CHECKING, TypedDict, Unpack, cast

from lakewarden.errors import InvalidArgument, Unsupported
from lakewarden.report import Operation
from lakewarden.specs import PLANNABLE, SPECS

if TYPE_CHECKING:
    from lakewarden.state.erasure_requests import ErasureRequest
    from lakewarden.state.job import Job


@dataclass(frozen=True)
class Selection:
    """What an operation works on: tables by name (all where none is named), for every user or for one."""

    tables: tuple[str, ...] = ()
    user: str | None = None
    look: bool = False
    """Whether maintenance opens each scope, also those that the state knows to be quiet."""

    @property
    def parameters(self) -> dict[str, str]:
        """The selection as a job stores it."""
        user = {} if self.user is None else {"user": self.user}
        return {"tables": ",".join(self.tables)} | user | ({"look": "true"} if self.look else {})

    @classmethod
    def of(cls, job: Job) -> Selection:
        tables = tuple(name for name in job.parameters.get("tables", "").split(",") if name)
        return cls(tables, job.parameters.get("user"), "look" in job.parameters)


@dataclass(frozen=True)
class Request:
    """An operation as it was requested, with the options of all operations; `specs.SPECS` says which options each takes."""

    operation: Operation
    tables: tuple[str, ...] = ()
    """As `namespace.table`; all where none is named."""
    user: str | None = None
    """Only this user's scopes; every user's where it is left out."""
    version: int | None = None
    timestamp: datetime | None = None
    discard_pending: bool = False
    retain_hours: float | None = None
    force: bool = False
    ignore_checks: bool = False
    """Of a vacuum: do not leave out scopes that failed a check of their data."""
    zorder: tuple[str, ...] = ()
    look: bool = False
    """Of maintenance: open each scope."""
    deep: bool = False
    even_if_unknown: bool = False
    """Of an erasure: continue although nothing is known of the user."""
    to: str | None = None
    """The storage to move to, or the place to export to."""
    restored: bool = False
    """Of a repair: the warehouse or its data was just restored from a backup."""


class PlanOptions(TypedDict, total=False):
    """The fields of a `Request` by keyword."""

    user: str | None
    version: int | None
    timestamp: datetime | None
    discard_pending: bool
    retain_hours: float | None
    force: bool
    ignore_checks: bool
    zorder: tuple[str, ...]
    look: bool
    deep: bool
    even_if_unknown: bool
    to: str | None
    restored: bool


def new_request(operation: str, tables: Sequence[str], **options: Unpack[PlanOptions]) -> Request:
    """The request that a call makes; `check_request` says whether it is valid."""
    made = Request(cast("Operation", operation), tuple(tables), **options)
    return replace(made, zorder=tuple(made.zorder))


def check_request(request: Request) -> Request:
    """Returns the request if its operation can be planned and takes all its options.

    Raises:
        InvalidArgument: the operation does not exist, does not take an option, or takes another number of tables.
        Unsupported: the operation cannot be planned.
    """
    spec = SPECS.get(request.operation)
    if spec is None:
        raise InvalidArgument(f"there is no operation {request.operation!r}; {', '.join(PLANNABLE)} can be planned")
    if not spec.plannable:
        raise Unsupported(f"{request.operation} cannot be planned; {', '.join(PLANNABLE)} can")
    given = (one.name for one in fields(Request) if getattr(request, one.name) != one.default)
    if unknown := sorted({*given} - spec.options - {"operation", "tables"}):
        takes = ", ".join(sorted(spec.options)) or "none"
        raise InvalidArgument(f"{request.operation} does not take {', '.join(unknown)}; its options are: {takes}")
    if spec.tables == "one" and len(request.tables) != 1:
        raise InvalidArgument(f"{request.operation} takes one table, and {len(request.tables)} were named")
    if spec.tables == "none" and request.tables:
        raise InvalidArgument(f"{request.operation} takes no tables: it is of all that a user has")
    if missing := sorted(name for name in spec.required if getattr(request, name) is None):
        raise InvalidArgument(f"{request.operation}: {' and '.join(_MISSING[name] for name in missing)}")
    return request


_MISSING = {"user": "name the user", "to": "say where to"}


def request_of(erasure: ErasureRequest) -> Request:
    """Returns a stored request for an erasure as one for an operation; the user was known when it was stored."""
    return Request("erase", erasure.tables, erasure.user, deep=erasure.deep, even_if_unknown=True)
