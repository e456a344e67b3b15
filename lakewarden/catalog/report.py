"""The result of an operation for one scope. Picklable values: they are sent to and from Spark's tasks."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar, Literal

from lakewarden.base.connection import Location
from lakewarden.base.scope import Scope
from lakewarden.catalog.operations import Operation
from lakewarden.errors import Conflict, StorageUnavailable

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
class Basis:
    """What a plan for a scope rests on, besides the version."""

    digest: str = ""
    """SHA-256 of that version's commit; empty when the plan does not rest on it."""
    end: int | None = None
    """The last possible `_seq` of the log as it was read; None when the plan does not rest on the log."""


@dataclass(frozen=True)
class Remains:
    """What a vacuum leaves for a later one, in milliseconds (`catalog.state.floors.entries.UpkeepNote`)."""

    dead_since: int
    log_since: int
    dead_bytes: int = -1


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
    basis: Basis = Basis()
    """Set in a plan only."""
    plan_id: str = ""
    """Id of the plan that a dry run made, or that was applied."""
    quiet: bool = False
    """Whether the operation has nothing to do in this version, as long as its rule is the same."""
    remains: Remains | None = None
    """Set by a vacuum that leaves nothing that it could delete now."""

    @property
    def uri(self) -> str:
        return self.location.uri
