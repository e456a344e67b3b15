"""The operator: runs operations as jobs, each under an id that its commits carry and the job log keeps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from lakewarden.base.commit_metadata import carrying
from lakewarden.catalog.operations import Request
from lakewarden.catalog.report import ScopeReport
from lakewarden.catalog.state.job import METADATA, Job
from lakewarden.catalog.state.job_log import JobLog
from lakewarden.maintenance.execution.engine import WorkEngine
from lakewarden.maintenance.procedures.procedure import procedure_of
from lakewarden.maintenance.procedures.workplace import Workplace
from lakewarden.maintenance.request import request_of_job
from lakewarden.storage.steps import Steps
from lakewarden.tables.fanout import SizedWork
from lakewarden.tables.warehouse import Warehouse

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Operator:
    """Runs operations over one warehouse."""

    warehouse: Warehouse
    engine: WorkEngine
    jobs: JobLog

    @property
    def workplace(self) -> Workplace:
        return Workplace(self.warehouse, self.engine.run, self.engine.flush_large, self.jobs, self._spread, self._in_tasks)

    def run(self, request: Request, job_id: str | None = None) -> list[ScopeReport]:
        """Runs the request without a plan; raises as the operation does. With `job_id`, the caller records the job."""
        return procedure_of(request.operation).run(self.workplace, request, job_id)

    def work_of(self, job: Job) -> list[ScopeReport]:
        """Runs a queued job's request under its id."""
        with carrying(job.parameters.get(METADATA, "")):
            return self.run(request_of_job(job), job.job_id)

    def _spread(self, work: Callable[[T], Steps[R]], items: Sequence[SizedWork[T]]) -> list[R]:
        return self.engine.run_large(work, items, self.warehouse.settings.flush.large_scope_bytes)

    def _in_tasks(self, work: Callable[[T], Steps[R]], items: Sequence[SizedWork[T]]) -> list[R]:
        return self.engine.run_large(work, items, 0)
