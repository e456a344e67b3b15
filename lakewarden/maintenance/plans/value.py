"""A plan: what an operation would do to which scopes, and what it rests on; as lines of JSON for files and the warehouse.

Nothing in a plan is trusted when it is applied (docs/decisions/0026-plans-as-values.md). It holds no credential and no value of
a column.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import TypeVar

import msgspec

from lakewarden.base.clock import HELD_AT_MOST
from lakewarden.catalog.operations import Operation
from lakewarden.catalog.report import ScopePlan, ScopeReport
from lakewarden.errors import Corrupt, InvalidArgument
from lakewarden.maintenance.request import Request, request_of_wire
from lakewarden.tables.rows.files import without_name

T = TypeVar("T")

MAX_SCOPES = 100_000
"""Of one plan: its lines are in memory while it is applied, half a kilobyte each."""

MAX_LINE = 64 << 20
"""Characters of one line: a vacuum of a million files."""

VALID_FOR = HELD_AT_MOST
"""A plan is a look at the store, and no look is acted on for longer."""

KEPT_FOR = 2 * VALID_FOR
"""So that a plan that is too old is still known, and says so."""

PLAN_ID = re.compile(r"PL-[0-9a-f]{12}-[0-9a-f]{8}")

_FORMAT = 1
_PARTITION = re.compile(r"[^/]*=[^/]*(?=/)")


def plan_of(report: ScopeReport, log_id: str, *, digest: str = "", end: int | None = None) -> ScopePlan:
    """The plan for a scope of which this is the report: `digest` and `end` as it has them."""
    return ScopePlan(
        table=str(report.scope.table),
        user=report.scope.user,
        log_id=log_id,
        uri=report.uri,
        version=report.version,
        digest=digest,
        end=end,
        parameters=report.parameters,
        metrics=report.metrics,
        files=tuple(map(plain_path, report.files)),
        summary=report.reason,
    )


@dataclass(frozen=True)
class Plan:
    """What an operation would do, scope by scope. Scopes with nothing to do are not in it."""

    plan_id: str
    warehouse: str
    """Id of the warehouse that it was made for."""
    planned_at: datetime
    """By the clock of the process that made it, from before its first look at the store."""
    request: Request
    scopes: tuple[ScopePlan, ...]
    reports: tuple[ScopeReport, ...] = field(default=(), compare=False, repr=False)
    """What was found of each scope, those without anything to do among them, where the plan was just made."""

    @property
    def failed(self) -> list[ScopeReport]:
        """The scopes that could not be looked at."""
        return [report for report in self.reports if report.fault]

    @property
    def operation(self) -> Operation:
        return self.request.operation

    @property
    def head(self) -> PlanHead:
        return PlanHead(self.plan_id, self.warehouse, self.planned_at, self.request.wire, len(self.scopes))

    @property
    def users(self) -> set[str]:
        """Whom it names."""
        named = {each.user for each in self.scopes} | {self.request.user}
        return {user for user in named if user is not None}

    def lines(self) -> Iterator[bytes]:
        """The plan as lines of JSON, without their ends: what it is for, then a line for each scope."""
        return (msgspec.json.encode(one) for one in (self.head, *self.scopes))

    def to_json(self) -> str:
        """The lines as one text, which `from_json` reads."""
        return "".join(f"{line.decode()}\n" for line in self.lines())

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """Raises as `read_plans`; InvalidArgument: the text holds several plans, or none."""
        found = list(read_plans(text.split("\n")))  # an id may hold what `splitlines` takes for the end of a line
        if len(found) != 1:
            raise InvalidArgument(f"the text holds {len(found)} plans; give the lines of one")
        return found[0]


@dataclass(frozen=True)
class PlanHead:
    """The first line of a plan. `count` is the number of lines that follow it."""

    plan_id: str
    warehouse: str
    planned_at: datetime
    request: Mapping[str, object]
    """As `Request.wire`."""
    count: int
    format: int = _FORMAT

    def plan(self, scopes: tuple[ScopePlan, ...]) -> Plan:
        """The plan of which these are the other lines.

        Raises:
            InvalidArgument: its operation has an option that this release does not know.
        """
        return Plan(self.plan_id, self.warehouse, self.planned_at, request_of_wire(self.request), scopes)


def read_plans(lines: Iterable[str]) -> Iterator[Plan]:
    """The plans that lines of JSON hold, one after another; a line is read when it is needed.

    Raises:
        Corrupt: a line is not of a plan, or lines are missing.
        InvalidArgument: a plan has more than `MAX_SCOPES` scopes, or is of a later release.
    """
    rest = (line for line in lines if line.strip())
    for line in rest:
        head = read_line(line, PlanHead)
        check_head(head)
        scopes = tuple(read_line(each, ScopePlan) for each in islice(rest, head.count))
        if len(scopes) < head.count:
            raise Corrupt(f"plan {head.plan_id} has {head.count} scopes, and {len(scopes)} of them are there: it was cut off")
        yield head.plan(scopes)


def check_head(head: PlanHead) -> None:
    """Raises:
    Corrupt: no plan has such an id or count.
    InvalidArgument: the plan is too long, or of a later release.
    """
    if not PLAN_ID.fullmatch(head.plan_id) or head.count < 0 or head.planned_at.tzinfo is None:
        raise Corrupt(f"{head.plan_id[:40]!r} is not the head of a plan")
    if head.format != _FORMAT:
        raise InvalidArgument(f"plan {head.plan_id} has format {head.format}, of a later release; this one reads {_FORMAT}")
    if head.count > MAX_SCOPES:
        raise InvalidArgument(f"plan {head.plan_id} has {head.count} scopes; a plan has at most {MAX_SCOPES}: plan fewer tables")


def read_line(line: str | bytes, kind: type[T]) -> T:
    """Raises Corrupt: the line is not JSON of that kind."""
    if len(line) > MAX_LINE:
        raise Corrupt(f"a line of the plan has more than {MAX_LINE} characters")
    try:
        return msgspec.json.decode(line, type=kind)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise Corrupt(f"{line[:60]!r} is not a line of a plan: {error}") from error


def plain_path(path: str) -> str:
    """The path as a plan has it: a FILE by its id alone, partition values as hashes."""
    return _PARTITION.sub(_hashed, without_name(path))


def _hashed(found: re.Match[str]) -> str:
    name, _, value = found[0].partition("=")
    return f"{name}={hashlib.sha256(value.encode()).hexdigest()[:16]}"
