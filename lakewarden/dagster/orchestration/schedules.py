"""Scheduled maintenance. Times are UTC. Covers every scope of the warehouse; work that is not worthwhile is skipped."""

import dagster as dg

from lakewarden.dagster.jobs.compact import compact_job
from lakewarden.dagster.jobs.evict import evict_job
from lakewarden.dagster.jobs.optimize import optimize_job
from lakewarden.dagster.jobs.prune import prune_job
from lakewarden.dagster.jobs.vacuum import vacuum_job
from lakewarden.dagster.orchestration.runs import under_way
from lakewarden.lakehouse import Lakehouse

_RUNNING = dg.DefaultScheduleStatus.RUNNING

compact_hourly = dg.ScheduleDefinition(
    name="compact_hourly",
    job=compact_job,
    cron_schedule="17 * * * *",  # not on the full hour, when most other jobs start
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

prune_nightly = dg.ScheduleDefinition(
    name="prune_nightly",
    job=prune_job,
    cron_schedule="50 3 * * *",
    description="Removes old events of scopes from Dagster's own storage; the warehouse is not touched.",
    default_status=_RUNNING,
)


@dg.schedule(job=vacuum_job, cron_schedule="0 4 * * 0", name="vacuum_weekly", default_status=_RUNNING)
def vacuum_weekly(lake: dg.ResourceParam[Lakehouse]) -> dg.RunRequest:
    """Lists files that no version inside the retention needs; deletes them if `maintenance.scheduled_deletes` is set."""
    deletes = lake.warehouse.settings.maintenance.scheduled_deletes
    config = {"ops": {"vacuum": {"config": {"dry_run": not deletes}}}}
    return dg.RunRequest(run_config=config)


@dg.schedule(job=evict_job, cron_schedule="* * * * *", name="evict_minutely", default_status=_RUNNING)
def evict_minutely(context: dg.ScheduleEvaluationContext, lake: dg.ResourceParam[Lakehouse]) -> dg.RunRequest | dg.SkipReason:
    """Removes expired rows of STREAM tables. Starts no run if nothing has expired."""
    if not any(table.type == "STREAM" for table in lake.tables()):
        return dg.SkipReason("there is no STREAM table")
    if under_way(context.instance, "evict"):
        return dg.SkipReason("an eviction is under way")
    if not lake.evict(dry_run=True):
        return dg.SkipReason("no row of a STREAM table has expired")
    return dg.RunRequest()


schedules = [evict_minutely, compact_hourly, optimize_nightly, vacuum_weekly, prune_nightly]
