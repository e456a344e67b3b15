"""Maintenance by the clock. Times are UTC; every scope of the warehouse, and what is not worth doing is skipped."""

from __future__ import annotations

import dagster as dg

from jobs.compact import compact_job
from jobs.optimize import optimize_job
from jobs.vacuum import vacuum_job

_RUNNING = dg.DefaultScheduleStatus.RUNNING

compact_hourly = dg.ScheduleDefinition(
    name="compact_hourly",
    job=compact_job,
    cron_schedule="17 * * * *",  # off the full hour, when everybody else's jobs start
    description="Folds the newest small files of scopes that have enough of them.",
    default_status=_RUNNING,
)

optimize_nightly = dg.ScheduleDefinition(
    name="optimize_nightly",
    job=optimize_job,
    cron_schedule="30 2 * * *",
    description="Packs files to the target size, where that pays.",
    default_status=_RUNNING,
)

vacuum_weekly = dg.ScheduleDefinition(
    name="vacuum_weekly",
    job=vacuum_job,
    cron_schedule="0 4 * * 0",
    # The form's default is a dry run, for people; the schedule is there to delete, with the retention of table or settings.
    run_config={"ops": {"vacuum": {"config": {"dry_run": False}}}},
    description="Deletes files that no version inside the retention needs.",
    default_status=_RUNNING,
)

schedules = [compact_hourly, optimize_nightly, vacuum_weekly]
