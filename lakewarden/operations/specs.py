"""What there is to know of each operation, in one table: the command line, SQL, jobs and Dagster read it here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Literal

from lakewarden.access.rights import TableAct
from lakewarden.errors import InvalidArgument, Unsupported
from lakewarden.operations.request import Request
from lakewarden.report import Operation


@dataclass(frozen=True)
class OperationSpec:
    """One operation. `prefix` begins the ids of its jobs (kalamdb.md 3.3, where that has one)."""

    prefix: str
    queueable: bool = False
    """Whether a job of it can wait for a runner; one that wants a person cannot."""
    plannable: bool = False
    """Whether it can be planned first, and the plan applied."""
    options: frozenset[str] = frozenset()
    """The fields of a `Request` that it takes, beside its tables."""
    act: TableAct | None = None
    """The right that its statement in SQL takes, for all scopes of a table; None where it has no statement."""
    own: bool = False
    """Whether the right to write is enough for a scope of one's own."""
    tables: Literal["any", "one"] = "any"
    """How many tables a request names; `any` is all of them where none is named."""


def _takes(*names: str) -> frozenset[str]:
    return frozenset(names)


_EVERY: TableAct = "maintain every scope of"

SPECS: Mapping[Operation, OperationSpec] = {
    "flush": OperationSpec("FL", queueable=True, plannable=True, options=_takes("user"), act="flush"),
    "compact": OperationSpec("CO", queueable=True, plannable=True, options=_takes("user"), act="compact"),
    "optimize": OperationSpec("OP", queueable=True, plannable=True, options=_takes("user", "zorder"), act=_EVERY, own=True),
    "vacuum": OperationSpec("VA", plannable=True, options=_takes("user", "retain_hours", "force"), act=_EVERY, own=True),
    "restore": OperationSpec(
        "RS",
        plannable=True,
        options=_takes("user", "version", "timestamp", "discard_pending"),
        act=_EVERY,
        own=True,
        tables="one",
    ),
    "evict": OperationSpec("SE", queueable=True, plannable=True, options=_takes("user"), act="evict"),
    "drop": OperationSpec("CL", plannable=True, tables="one", act="drop"),
    "erase": OperationSpec("UC", plannable=True, options=_takes("user", "deep")),
    "export": OperationSpec("UE", queueable=True),
    "import": OperationSpec("UI"),
    "move": OperationSpec("MV", queueable=True, tables="one", act="move"),
    "repair": OperationSpec("RP"),
}

PLANNABLE: tuple[Operation, ...] = tuple(name for name, spec in SPECS.items() if spec.plannable)


def check_request(request: Request) -> Request:
    """The request, if its operation can be planned and takes all that it says.

    Raises:
        InvalidArgument: no such operation, an option that it does not take, or another number of tables.
        Unsupported: it is not planned.
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
    if request.operation == "erase" and request.user is None:
        raise InvalidArgument("erase: name the user")
    return request
