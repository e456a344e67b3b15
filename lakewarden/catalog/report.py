"""The result of an operation for one scope. Picklable values: they are sent to and from Spark's tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import ClassVar, Literal

from lakewarden.base.connection import Location
from lakewarden.base.scope import Scope, TableName
from lakewarden.catalog.operations import Operation
from lakewarden.errors import Conflict, LakewardenError, Moved, ScopesFailed, StorageUnavailable, Transient

Outcome = Literal["done", "skipped", "planned", "failed", "deferred"]
"""`deferred`: too large for one task. The job continues the scope in Spark, and no caller sees this status."""


@dataclass(frozen=True)
class ScopeState:
    """A scope's Delta table in one version. `bytes` counts the live data files."""

    version: int
    rows: int
    files: int
    bytes: int
    last_seq: int
    """The watermark: every row of the log up to this `_seq` is in the table; -1 before the first flush."""
    layout: tuple[tuple[int, int], ...] = field(default=(), compare=False, repr=False)
    """Rows (-1 when unknown) and bytes of each live file, newest rows first; empty for more than `MAX_LAYOUT` files, and where
    they are in partitions."""

    MAX_LAYOUT: ClassVar[int] = 64

    @property
    def is_listed(self) -> bool:
        """Whether the layout has all files."""
        return len(self.layout) == self.files


@dataclass(frozen=True)
class Fault:
    """An error as a value, so that one scope's failure is reported without ending the work on others."""

    code: str
    message: str
    transient: bool

    def hinders(self, what: str) -> Conflict | StorageUnavailable:
        """The error of what could not be done because of it; `what` begins the message."""
        kind = StorageUnavailable if self.code == StorageUnavailable.code else Conflict
        return kind(f"{what}: {self.message}")


@dataclass(frozen=True)
class Remains:
    """What a vacuum leaves for a later one, in milliseconds (`catalog.state.floor_entries.UpkeepNote`)."""

    dead_since: int
    log_since: int
    dead_bytes: int = -1


@dataclass(frozen=True, kw_only=True)
class ScopePlan:
    """What an operation would do to one scope, and what that rests on.

    It is made once, by the look at the scope: a dry run shows it, a plan's file and the warehouse keep it as a line of JSON, and
    an apply does it. It says what the operation has to find again; what follows from that and from the table is read anew.
    """

    table: str
    user: str | None
    log_id: str
    uri: str
    """Its place: that of its Delta table."""
    version: int | None = None
    digest: str = ""
    """SHA-256 of that version's commit."""
    end: int | None = None
    """The last possible `_seq` of the log as it was read; None where the operation leaves the log alone."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """What was resolved when it was planned, as the version that a timestamp means."""
    metrics: Mapping[str, int] = field(default_factory=dict)
    """Expected gain and cost, by the names that the report of the operation has."""
    files: tuple[str, ...] = ()
    """The files that it rests on, relative to the scope."""
    summary: str = ""

    @property
    def scope(self) -> Scope:
        return Scope(TableName.parse(self.table), self.user)

    @property
    def key(self) -> tuple[Scope, str]:
        """What tells the line from the others: a repair has one for the scope, the log and the floor."""
        return self.scope, self.parameters.get("subject", "")

    def planned(self, operation: Operation, plan_id: str) -> ScopeReport:
        """The report of what would be done."""
        return replace(self._report(operation, "planned", self.summary), files=self.files, plan_id=plan_id)

    def done(self, operation: Operation, at: datetime, reason: str = "") -> ScopeReport:
        """The report of a scope for which all is done that was planned."""
        return replace(self._report(operation, "done", reason), finished_at=at)

    def failed(self, operation: Operation, error: LakewardenError, at: datetime) -> ScopeReport:
        """The report of a scope that was refused."""
        fault = Fault(error.code, error.message, transient=isinstance(error, Transient))
        return replace(self._report(operation, "failed", error.message), metrics={}, fault=fault, finished_at=at)

    def _report(self, operation: Operation, outcome: Outcome, reason: str) -> ScopeReport:
        parameters, metrics = dict(self.parameters), dict(self.metrics)
        return ScopeReport(self.scope, operation, outcome, Location(self.uri), reason, self.version, parameters, metrics)

    def check_place(self, log_id: str, uri: str) -> None:
        """Raises Moved: the table is another one by now, or the scope is at another place."""
        if log_id != self.log_id:
            raise Moved(f"{self.scope} was planned on another table of that name, which was dropped; plan again")
        if uri != self.uri:
            raise Moved(f"{self.scope} was planned at {self.uri} and is at {uri} now; plan again")


@dataclass(frozen=True)
class ScopeReport:
    """What an operation did, or would do, to one scope.

    `metrics` are whole numbers by stable snake_case names (`rows_upserted`, `files_removed`, …);
    `parameters` are the parameters of the request, as text.
    """

    scope: Scope
    operation: Operation
    outcome: Outcome
    location: Location
    reason: str = ""
    """Why the scope was skipped, or what is planned; empty when done."""
    version: int | None = None
    """The Delta version after the operation; None when the scope has no table."""
    parameters: dict[str, str] = field(default_factory=dict)
    metrics: dict[str, int] = field(default_factory=dict)
    state: ScopeState | None = None
    fault: Fault | None = None
    files: tuple[str, ...] = ()
    """Files that a dry run would touch, or a vacuum removed, relative to the scope."""
    finished_at: datetime | None = None
    plan: ScopePlan | None = None
    """What is planned, where the look rests on more than the version."""
    plan_id: str = ""
    """Id of the plan that a dry run made, or that was applied."""
    quiet: bool = False
    """Whether the operation has nothing to do in this version, as long as its rule is the same."""
    remains: Remains | None = None
    """Set by a vacuum that leaves nothing that it could delete now."""

    @property
    def uri(self) -> str:
        return self.location.uri


def check_done(reports: Sequence[ScopeReport]) -> None:
    """Raises ScopesFailed: some scopes failed; it has the code of the first fault. The other scopes are done."""
    faults = [(report.scope, report.fault.code, report.fault.message) for report in reports if report.fault]
    ScopesFailed.check(faults, len(reports), "scopes failed")
