"""What every procedure works with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from lakewarden.catalog.operations import Operation
from lakewarden.catalog.report import ScopeReport
from lakewarden.catalog.state.job import WorkByTable, new_job_id, outcome_of, work_of
from lakewarden.catalog.state.job_log import JobLog
from lakewarden.maintenance.engine import WorkEngine
from lakewarden.storage.meter import Account, metered
from lakewarden.storage.steps import Steps
from lakewarden.tables.fanout import SizedWork
from lakewarden.tables.warehouse import Warehouse

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Workplace(ABC):
    """A warehouse, its job log, and where work over its scopes runs."""

    warehouse: Warehouse
    engine: WorkEngine
    jobs: JobLog

    def spread(self, work: Callable[[T], Steps[R]], items: Sequence[SizedWork[T]]) -> list[R]:
        """Runs the parts of one scope's work, side by side if they are too many bytes to run one after the other."""
        return self.engine.run_large(work, items, self.warehouse.settings.flush.large_scope_bytes)

    def in_tasks(self, work: Callable[[T], Steps[R]], items: Sequence[SizedWork[T]]) -> list[R]:
        """Runs work in Spark's tasks, however little it is."""
        return self.engine.run_large(work, items, 0)

    def new_job_id(self, operation: Operation) -> str:
        return new_job_id(operation, self.warehouse.clock, self.warehouse.new_id)

    def as_job(
        self,
        operation: Operation,
        parameters: Mapping[str, str],
        work: Callable[[str], list[ScopeReport]],
        job_id: str | None,
        *,
        rechecks: bool = True,
    ) -> list[ScopeReport]:
        """Runs the work under a job's id, and records its outcome in the job log, unless there was nothing to do.

        Args:
            job_id: of a job that the caller records.
            rechecks: as in `remember`.
        """
        started = self.warehouse.clock()
        own = job_id or self.new_job_id(operation)
        with metered() as spent:
            reports = work(own)
            self.remember(operation, reports, rechecks=rechecks)
        if job_id is not None:
            return reports
        if any(report.outcome != "skipped" for report in reports):
            status, message = outcome_of(reports)
            self.jobs.keep(operation, own, started, dict(parameters), status, message, self.work_of(reports, spent))
        return reports

    def work_of(self, reports: Sequence[ScopeReport], spent: Account) -> WorkByTable:
        """What they did, and what was requested for it, as the job log keeps it."""
        tables = self.warehouse.catalog.last_read().tables.values()
        return work_of(reports, {str(table.name): table.id for table in tables}, spent.by_table())

    @abstractmethod
    def remember(self, operation: Operation, reports: Sequence[ScopeReport], *, rechecks: bool = True) -> None:
        """Keeps which scopes were found broken (`maintenance.check.memory`)."""
