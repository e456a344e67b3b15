"""`lake.jobs`: the jobs of a warehouse."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from lakewarden.base.commit_metadata import Metadata, attaches
from lakewarden.catalog.operations import Queueable
from lakewarden.client.parts import Noun

if TYPE_CHECKING:
    from lakewarden.catalog.state.job import Job


class JobCalls(Noun):
    """The calls of `lake.jobs`, as `Lakehouse` has them."""

    @attaches
    def enqueue(self, operation: Queueable, *tables: str, metadata: Metadata | None = None, **options: object) -> Job:
        """Requests an operation that `run_jobs` will run, in this process or another.

        Args:
            metadata: a JSON object that its commits will carry.
            options: of the operation, as `user`, or `to`, the storage to move to.

        Raises:
            NotFound, InvalidArgument: a table or a storage does not exist, or a user's name is not valid.
            AlreadyActive: the same request is already queued or running.
        """
        from lakewarden.maintenance.request import new_request

        return self._parts.operator.enqueue(new_request(operation, tables, **options))

    def waiting_jobs(self) -> list[Job]:
        """The jobs that `run_jobs` would run now, oldest first."""
        return self._parts.runner.waiting()

    def run_jobs(self, only: Collection[str] | None = None) -> list[Job]:
        """Runs the queued jobs (`only`: these ids), oldest first; a failed one does not stop the others.

        Takes over jobs whose runner has died.
        """
        return self._parts.runner.run_waiting(only)

    def kill_job(self, job_id: str) -> Job:
        """Cancels a job that is not over; a running one stops before its next scope."""
        return self._parts.operator.jobs.kill(job_id)


class Jobs(JobCalls):
    """`lake.jobs`: the same by shorter names."""

    waiting = JobCalls.waiting_jobs
    run = JobCalls.run_jobs
    kill = JobCalls.kill_job

    # `lake.jobs(limit)` was a method before it was a noun; its callers may still call it.
    def __call__(self, limit: int | None = 50) -> list[Job]:
        """The last jobs, newest first."""
        return self._parts.operator.jobs.newest(limit)
