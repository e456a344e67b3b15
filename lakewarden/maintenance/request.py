"""Makes requests for operations, and checks them by the table of operations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Unpack, cast

from lakewarden.catalog.operations import PLANNABLE, QUEUEABLE, SPECS, Operation, OperationSpec, PlanOptions, Request
from lakewarden.errors import InvalidArgument, Unsupported

if TYPE_CHECKING:
    from lakewarden.catalog.state.erasures import ErasureRequest
    from lakewarden.catalog.state.job import Job


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
    _check_taken(request, spec)
    if missing := sorted(name for name in spec.required if getattr(request, name) is None):
        raise InvalidArgument(f"{request.operation}: name {' and '.join(spec.required[name] for name in missing)}")
    return request


def check_queueable(request: Request) -> Request:
    """Returns the request if its operation can be queued and takes all its options.

    Raises:
        InvalidArgument: the operation does not exist, needs a person, or does not take an option or this number of tables.
    """
    spec = SPECS.get(request.operation)
    if spec is None or not spec.queueable:
        raise InvalidArgument(f"{request.operation!r} can't be queued; {', '.join(QUEUEABLE)} can")
    _check_taken(request, spec)
    return request


def set_options(request: Request) -> set[str]:
    """The names of the options that are not as they are by default."""
    return {one.name for one in fields(Request) if getattr(request, one.name) != one.default} - {"operation", "tables"}


def _check_taken(request: Request, spec: OperationSpec) -> None:
    if unknown := sorted(set_options(request) - spec.options):
        takes = ", ".join(sorted(spec.options)) or "none"
        raise InvalidArgument(f"{request.operation} does not take {', '.join(unknown)}; its options are: {takes}")
    if spec.tables == "one" and len(request.tables) != 1:
        raise InvalidArgument(f"{request.operation} takes one table, and {len(request.tables)} were named")
    if spec.tables == "none" and request.tables:
        raise InvalidArgument(f"{request.operation} takes no tables: it is of all that a user has")


def request_of(erasure: ErasureRequest) -> Request:
    """Returns a stored request for an erasure as one for an operation; the user was known when it was stored."""
    return Request("erase", erasure.tables, erasure.user, deep=erasure.deep, even_if_unknown=True)


def job_parameters(request: Request) -> dict[str, str]:
    """The request as a queued job stores it; `request_of_job` reads it."""
    place = {} if request.to is None else {"to": request.to}
    ratio = {} if request.ratio is None else {"ratio": str(request.ratio)}
    return request.selection.parameters | place | ratio | ({"scheduled": "true"} if request.scheduled else {})


def request_of_job(job: Job) -> Request:
    """Returns the request of a queued job, as its parameters store it."""
    tables = tuple(name for name in job.parameters.get("tables", "").split(",") if name)
    given = job.parameters
    ratio = float(given["ratio"]) if "ratio" in given else None
    request = Request(job.job_type, tables, given.get("user"), look="look" in given, to=given.get("to"))
    return replace(request, ratio=ratio, scheduled="scheduled" in given)
