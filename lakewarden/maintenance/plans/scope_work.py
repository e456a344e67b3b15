"""What every plan of a maintenance operation has in common: one scope, the version that was read, and words for people."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import ClassVar

from lakewarden.base.clock import Clock, NewId
from lakewarden.base.faults import Reach, no_faults
from lakewarden.catalog.operations import Operation
from lakewarden.catalog.report import Outcome, Remains, ScopeReport, ScopeState
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.commit_log.commits import CommitLog
from lakewarden.delta.commit_log.committing import check_held
from lakewarden.delta.lifecycle.states import check_not_frozen
from lakewarden.delta.table import ScopeTable, check_whole
from lakewarden.errors import Conflict
from lakewarden.maintenance.plans.value import plan_of
from lakewarden.storage.open import open_store
from lakewarden.storage.steps import Steps
from lakewarden.tables.fanout import Run


@dataclass(frozen=True, kw_only=True)
class ScopeWork(ABC):
    """A plan for one scope; printed, it says what would be done, or why nothing is."""

    operation: ClassVar[Operation]
    target: ScopeTarget
    planned_at: datetime
    """From before the first look at the store on which the plan rests; by the clock with which it is run."""
    table: ScopeTable | None = field(default=None, repr=False, compare=False)
    """The snapshot that was read; what the plan commits directly follows it. None where the scope has no table."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    nothing: str = ""
    """Why there is nothing to do; empty where there is something."""
    summary: str = ""
    """What would be done, and what would be left and why."""
    metrics: Mapping[str, int] = field(default_factory=dict)
    """What is known of the outcome before it."""
    files: tuple[str, ...] = ()
    """The files that it would touch, relative to the scope."""
    remains: Remains | None = None
    """What a vacuum leaves."""

    @property
    def version(self) -> int | None:
        """The Delta version that it was made from, and that it can be run on."""
        return None if self.table is None else self.table.version

    @cached_property
    def state(self) -> ScopeState | None:
        return None if self.table is None else self.table.state(self.target.app_id)

    def __str__(self) -> str:
        where = "no table" if self.version is None else f"version {self.version}"
        what = f"nothing to do: {self.nothing}" if self.nothing else self.summary
        return f"{self.operation} {self.target.scope} at {where}: {what}"

    @abstractmethod
    def run(self, *, job_id: str, clock: Clock, new_id: NewId, reach: Reach = no_faults) -> Steps[ScopeReport]:
        """Does what is planned, in one commit.

        Raises:
            Conflict: the table moved on since the plan was made; nothing was changed.
        """

    @property
    def of_all(self) -> bool:
        """Whether it chose among all files of the scope."""
        return True

    def is_larger(self, size: int) -> bool:
        """Whether it can be spread over tasks, and reads more than this many bytes."""
        return False

    def spread_over(self, run: Run) -> ScopeWork:
        """The same plan, which then runs its parts there."""
        return self

    def deferred(self) -> ScopeReport:
        """The report of a scope that is continued with `spread_over`."""
        return self._report("deferred", "", ())

    def report(self) -> ScopeReport:
        """What a dry run answers: `planned` with the files and figures, or `skipped` with the reason."""
        report = self._report("skipped" if self.nothing else "planned", self.nothing or self.summary, self.files)
        if self.table is None:
            return report
        return replace(report, plan=plan_of(report, self.target.log_id, digest=self.table.digest))

    def skipped(self, reason: str) -> ScopeReport:
        """The report of a run that changed nothing."""
        return self._report("skipped", reason, ())

    def done(self, state: ScopeState, metrics: Mapping[str, int], files: tuple[str, ...], at: datetime) -> ScopeReport:
        report = self._report("done", "", files, state)
        return replace(report, metrics=dict(metrics), finished_at=at, remains=self.remains)

    def _report(self, outcome: Outcome, reason: str, files: tuple[str, ...], state: ScopeState | None = None) -> ScopeReport:
        shown = state or self.state
        return ScopeReport(
            self.target.scope,
            self.operation,
            outcome,
            self.target.location,
            reason=reason,
            version=shown.version if shown else None,
            parameters=dict(self.parameters),
            metrics=dict(self.metrics) if outcome == "planned" else {},
            state=shown,
            files=files,
            quiet=bool(self.nothing) and reason == self.nothing and self.of_all,
            remains=self.remains if self.nothing else None,
        )


def unmoved(plan: ScopeWork, now: datetime) -> ScopeTable:
    """The table that the plan was made from; a commit on it fails all the same if another comes first.

    Raises:
        Conflict: it has another version by now, or is being moved; or the plan is too old to be run (`TooLate`).
        Corrupt: a torn commit is on top of it.
    """
    table = plan.table
    assert table is not None  # else there is nothing to do, which the plan says
    check_fresh(plan, now)
    check_not_frozen(table, plan.target)
    check_whole(table, table.location)
    if CommitLog(open_store(table.location)).has(table.version + 1):
        planned = f"the {plan.operation} of {plan.target.scope} was planned at version {table.version}"
        raise Conflict(f"{planned}, and there is version {table.version + 1} now; plan again")
    return table


def check_fresh(plan: ScopeWork, now: datetime) -> None:
    """Raises as `check_held`."""
    check_held(f"the {plan.operation} of {plan.target.scope}", plan.planned_at, now)
