"""What every procedure works with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lakewarden.catalog.operations import Operation
from lakewarden.catalog.report import ScopeReport
from lakewarden.catalog.state.job import new_job_id
from lakewarden.catalog.state.job_log import JobLog
from lakewarden.catalog.state.job_work import WorkByTable, work_of
from lakewarden.maintenance.flush.run import FlushLarge
from lakewarden.tables.fanout import Run
from lakewarden.tables.warehouse import Warehouse


@dataclass(frozen=True)
class Workplace:
    """A warehouse, its job log, and where work over its scopes runs."""

    warehouse: Warehouse
    run: Run
    flush_large: FlushLarge
    jobs: JobLog
    spread: Run | None = None
    """Runs the parts of one scope's work, if they are too many bytes to run one after the other."""
    in_tasks: Run | None = None
    """Runs work in Spark's tasks, however little it is."""

    def new_job_id(self, operation: Operation) -> str:
        return new_job_id(operation, self.warehouse.clock, self.warehouse.new_id)

    def as_job(
        self,
        operation: Operation,
        parameters: Mapping[str, str],
        work: Callable[[str], list[ScopeReport]],
        job_id: str | None,
        *,
        keep: bool = True,
        rechecks: bool = True,
    ) -> list[ScopeReport]:
        """Runs the work under a job's id, and records its outcome in the job log, unless there was nothing to do.

        Args:
            job_id: of a job that the caller records.
            keep: False for a dry run.
            rechecks: as in `remember`.
        """
        started = self.warehouse.clock()
        own = job_id or self.new_job_id(operation)
        reports = work(own)
        if keep:
            self.remember(operation, reports, rechecks=rechecks)
        if job_id is not None:
            return reports
        if keep and any(report.outcome != "skipped" for report in reports):
            self.jobs.record(operation, own, started, dict(parameters), reports, self.work_of(reports))
        return reports

    def work_of(self, reports: Sequence[ScopeReport]) -> WorkByTable:
        """What they did, as the job log keeps it."""
        tables = self.warehouse.catalog.last_read().tables.values()
        return work_of(reports, {str(table.name): table.id for table in tables})

    def remember(self, operation: Operation, reports: Sequence[ScopeReport], *, rechecks: bool = True) -> None:
        """Keeps which scopes were found broken (`maintenance.check.memory`)."""
        from lakewarden.maintenance.check.memory import remember  # brings the checks, which most operations never need

        remember(self.warehouse, self.run, operation, reports, rechecks=rechecks)
