"""The operations as Dagster jobs. The code is `lakewarden/dagster/jobs/`."""

from __future__ import annotations

from lakewarden.dagster.jobs.check import build_check_job
from lakewarden.dagster.jobs.compact import compact_job
from lakewarden.dagster.jobs.erase import erase_job
from lakewarden.dagster.jobs.evict import evict_job
from lakewarden.dagster.jobs.export import export_job
from lakewarden.dagster.jobs.flush import flush_job
from lakewarden.dagster.jobs.move import move_job
from lakewarden.dagster.jobs.optimize import optimize_job
from lakewarden.dagster.jobs.prune import prune_job
from lakewarden.dagster.jobs.queue_job import run_queued_job
from lakewarden.dagster.jobs.record import record_job
from lakewarden.dagster.jobs.restore import restore_job
from lakewarden.dagster.jobs.vacuum import vacuum_job

__all__ = [
    "build_check_job",
    "compact_job",
    "erase_job",
    "evict_job",
    "export_job",
    "flush_job",
    "move_job",
    "optimize_job",
    "prune_job",
    "record_job",
    "restore_job",
    "run_queued_job",
    "vacuum_job",
]
