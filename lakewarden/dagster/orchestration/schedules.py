"""Scheduled maintenance. Times are UTC. Covers every scope of the warehouse; work that is not worthwhile is skipped."""

from __future__ import annotations

import dagster as dg

from lakewarden.dagster.mount import Mount
from lakewarden.dagster.orchestration.evaluated import build_schedule
from lakewarden.dagster.orchestration.runs import under_way
from lakewarden.lakehouse import Lakehouse


def build_schedules(mount: Mount) -> list[dg.ScheduleDefinition]:
    """Those of the warehouse's maintenance, and of Dagster's own storage."""
    return [
        build_schedule(mount, evict_minutely, "evict_job", "* * * * *"),
        _plain(
            mount,
            "compact_hourly",
            "compact_job",
            "17 * * * *",  # not on the full hour, when most other jobs start
            "Folds the newest small files of scopes that have enough of them.",
        ),
        _plain(mount, "optimize_nightly", "optimize_job", "30 2 * * *", "Packs files to the target size, where that pays."),
        build_schedule(mount, vacuum_weekly, "vacuum_job", "0 4 * * 0"),
        _plain(
            mount,
            "prune_nightly",
            "prune_job",
            "50 3 * * *",
            "Removes old events of scopes from Dagster's own storage; the warehouse is not touched.",
        ),
    ]


def _plain(mount: Mount, name: str, job: str, cron: str, description: str) -> dg.ScheduleDefinition:
    """Runs the job as it is."""
    return dg.ScheduleDefinition(
        name=mount.named(name),
        job_name=mount.named(job),
        cron_schedule=cron,
        description=description,
        default_status=dg.DefaultScheduleStatus.RUNNING,
    )


def vacuum_weekly(_context: dg.ScheduleEvaluationContext, lake: Lakehouse, _mount: Mount) -> dg.RunRequest:
    """Lists files that no version inside the retention needs; deletes them if `maintenance.scheduled_deletes` is set."""
    deletes = lake.warehouse.settings.maintenance.scheduled_deletes
    return dg.RunRequest(run_config={"ops": {"vacuum": {"config": {"dry_run": not deletes}}}})


def evict_minutely(context: dg.ScheduleEvaluationContext, lake: Lakehouse, mount: Mount) -> dg.RunRequest | dg.SkipReason:
    """Removes expired rows of STREAM tables. Starts no run if nothing has expired."""
    if not any(table.type == "STREAM" for table in lake.tables()):
        return dg.SkipReason("there is no STREAM table")
    if under_way(context.instance, mount, "evict"):
        return dg.SkipReason("an eviction is under way")
    if not lake.evict(dry_run=True):
        return dg.SkipReason("no row of a STREAM table has expired")
    return dg.RunRequest(run_config={"ops": {"evict": {"config": {"dry_run": False}}}})
