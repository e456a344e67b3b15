"""An operation as it was requested: made from what a caller gives, checked, and stored in plans and jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar, cast

import msgspec

from lakewarden.catalog.operations import PLANNABLE, QUEUEABLE, SPECS, Operation, OperationSpec
from lakewarden.errors import Corrupt, InvalidArgument, Unsupported
from lakewarden.maintenance.options import Options, option_names, options_type, says_something

if TYPE_CHECKING:
    from lakewarden.catalog.state.erasures import ErasureRequest
    from lakewarden.catalog.state.job import Job

Taken = TypeVar("Taken", bound=Options)


@dataclass(frozen=True)
class Request:
    """An operation with its own options, over tables: `namespace.table`, or all where none is named."""

    operation: Operation
    tables: tuple[str, ...] = ()
    options: Options = field(default_factory=Options)

    @property
    def user(self) -> str | None:
        """For whom; None for every user."""
        return getattr(self.options, "user", None)

    @property
    def look(self) -> bool:
        """Whether maintenance opens each scope, also those that the state knows to be quiet."""
        return getattr(self.options, "look", False)

    def options_of(self, kind: type[Taken]) -> Taken:
        """The options, of which the operation's own code knows the type."""
        assert isinstance(self.options, kind), f"{self.operation} takes {kind.__name__}"
        return self.options

    @property
    def scopes(self) -> dict[str, str]:
        """Which scopes it is for, as its job notes that."""
        return {name: text for name, text in self.parameters.items() if name in ("tables", "user", "look")}

    @property
    def parameters(self) -> dict[str, str]:
        """The request as a queued job stores it; `request_of_job` reads it."""
        return {"tables": ",".join(self.tables)} | {name: _text(value) for name, value in self.options.changed.items()}

    @property
    def wire(self) -> dict[str, object]:
        """The request as a plan stores it; `request_of_wire` reads it."""
        return {"operation": self.operation, "tables": self.tables, **self.options.values}


def new_request(operation: str, tables: Sequence[str], **options: object) -> Request:
    """The request that a call makes; `check_request` says whether it is valid.

    Raises:
        InvalidArgument: the operation does not exist or does not take an option, or a value is not of its type.
    """
    if operation not in SPECS:
        raise InvalidArgument(f"there is no operation {operation!r}; {', '.join(PLANNABLE)} can be planned")
    return _made(cast("Operation", operation), tables, options)


def _made(operation: Operation, tables: Sequence[str], options: Mapping[str, object], *, strict: bool = True) -> Request:
    """Raises as `new_request`. `strict`: whether a number has to be one, and not its text."""
    takes = option_names(operation)
    named = {name: value for name, value in options.items() if says_something(value)}
    if unknown := sorted(named.keys() - takes):
        raise InvalidArgument(
            f"{operation} does not take {', '.join(unknown)}; its options are: {', '.join(sorted(takes)) or 'none'}"
        )
    given = {name: value for name, value in options.items() if name in takes}
    try:
        return Request(operation, tuple(tables), msgspec.convert(given, options_type(operation), strict=strict))
    except msgspec.ValidationError as error:
        raise InvalidArgument(f"{operation}: {error}") from error


def with_texts(request: Request, texts: Mapping[str, str]) -> Request:
    """The request with further options, written as text, whatever the case of their names. Whose scopes it is for stays.

    Raises:
        InvalidArgument: the operation does not take an option, it has a value already, or the text is not of its type.
    """
    further = {name.lower(): text for name, text in texts.items()}
    if there := sorted(name for name in further if name == "user" or name in request.options.changed):
        raise InvalidArgument(f"{request.operation}: {there[0]} is said by the statement itself")
    given = _parsed(request.operation, further)
    return _made(request.operation, request.tables, {**request.options.changed, **given}, strict=False)


def check_request(request: Request) -> Request:
    """Returns the request if its operation can be planned.

    Raises:
        InvalidArgument: it takes another number of tables, or an option that it needs was not given.
        Unsupported: the operation cannot be planned.
    """
    spec = SPECS[request.operation]
    if not spec.plannable:
        raise Unsupported(f"{request.operation} cannot be planned; {', '.join(PLANNABLE)} can")
    _check_tables(request, spec)
    if missing := sorted(name for name in spec.required if getattr(request.options, name) is None):
        raise InvalidArgument(f"{request.operation}: name {' and '.join(spec.required[name] for name in missing)}")
    return request


def check_queueable(request: Request) -> Request:
    """Returns the request if its operation can be queued.

    Raises:
        InvalidArgument: the operation needs a person, or does not take this number of tables.
    """
    spec = SPECS[request.operation]
    if not spec.queueable:
        raise InvalidArgument(f"{request.operation!r} can't be queued; {', '.join(QUEUEABLE)} can")
    _check_tables(request, spec)
    return request


def _check_tables(request: Request, spec: OperationSpec) -> None:
    if spec.tables == "one" and len(request.tables) != 1:
        raise InvalidArgument(f"{request.operation} takes one table, and {len(request.tables)} were named")
    if spec.tables == "none" and request.tables:
        raise InvalidArgument(f"{request.operation} takes no tables: it is of all that a user has")


def request_of(erasure: ErasureRequest) -> Request:
    """Returns a stored request for an erasure as one for an operation; the user was known when it was stored."""
    return new_request("erase", erasure.tables, user=erasure.user, deep=erasure.deep, even_if_unknown=True)


def request_of_job(job: Job) -> Request:
    """Returns the request of a queued job, as its parameters store it."""
    operation = job.job_type
    tables = tuple(name for name in job.parameters.get("tables", "").split(",") if name)
    given = _parsed(operation, job.parameters)
    return _made(operation, tables, {name: given[name] for name in option_names(operation) & given.keys()}, strict=False)


def request_of_wire(stored: Mapping[str, object]) -> Request:
    """The request of a plan. Plans of earlier releases name the options of all operations.

    Raises:
        Corrupt: it is not one.
        InvalidArgument: it has an option that this release does not know.
    """
    operation, tables = stored.get("operation"), stored.get("tables", ())
    if operation not in SPECS or not isinstance(tables, list | tuple):
        raise Corrupt(f"{operation!r} of {tables!r} is not an operation that a plan is for")
    return new_request(str(operation), [str(name) for name in tables], **{str(key): stored[key] for key in stored.keys() - _HEAD})


_HEAD = {"operation", "tables"}


def _parsed(operation: Operation, texts: Mapping[str, str]) -> dict[str, object]:
    """The texts, of which those of several names are divided at their commas; `_made` reads numbers."""
    several = {one.name for one in fields(options_type(operation)) if isinstance(one.default, tuple)}
    return {name: [each.strip() for each in text.split(",")] if name in several else text for name, text in texts.items()}


def _text(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case tuple():
            return ",".join(map(str, value))
        case datetime():
            return value.isoformat()
        case _:
            return str(value)
