"""The jobs of a warehouse."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakewarden.lakehouse.parts import Parts
from lakewarden.operations.request import Asked

if TYPE_CHECKING:
    from lakewarden.state.job import Job, Queueable


@dataclass(frozen=True)
class Jobs:
    """`lake.jobs`."""

    parts: Parts

    # `lake.jobs(limit)` was a method before it was this noun, and stays one for its callers.
    def __call__(self, limit: int | None = 50) -> list[Job]:
        """The last jobs, newest first."""
        return self.parts.operator.jobs.newest(limit)

    def enqueue(self, operation: Queueable, *tables: str, user: str | None = None, to: str | None = None) -> Job:
        """Asks for an operation that `run_jobs`, here or elsewhere, will do.

        Args:
            to: the storage to move to; for a move alone.

        Raises:
            NotFound, InvalidArgument: a table, a user or a storage is none.
            AlreadyActive: the same was asked for already, and is not over.
        """
        from lakewarden.execution.enqueue import enqueue

        return enqueue(self.parts.warehouse, self.parts.operator.jobs, operation, Asked(tables, user), to)

    def waiting(self) -> list[Job]:
        """What `run_jobs` would run now, oldest first."""
        return self.parts.runner.waiting()

    def run(self, only: Collection[str] | None = None) -> list[Job]:
        """Runs what is queued (`only`: these ids), oldest first; one that fails does not keep back the others.

        What a runner left that shows no life any more is taken over.
        """
        return self.parts.runner.run_waiting(only)

    def kill(self, job_id: str) -> Job:
        """Cancels a job that is not over; one that runs stops before its next scope."""
        return self.parts.operator.jobs.kill(job_id)
