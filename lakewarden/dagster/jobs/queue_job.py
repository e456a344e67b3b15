"""`run_queued_job` runs the jobs that were enqueued in the warehouse; `record_job` books what happened outside Dagster."""

import dagster as dg
from pydantic import Field

from lakewarden.catalog.state.job import Job
from lakewarden.dagster.assets.health_changes import book_health
from lakewarden.dagster.assets.metadata import table_value
from lakewarden.dagster.jobs.event_log.behind import book_behind
from lakewarden.dagster.jobs.event_log.events import mark_failed
from lakewarden.dagster.jobs.runs import SPARK, ScopeSelection, job_of, job_tags, raise_failures, warehouse_op
from lakewarden.dagster.lakehouse import WarehouseRun
from lakewarden.maintenance.check.memory import BROKEN, recheck
from lakewarden.tables.fanout import run_here


class RunQueuedConfig(dg.Config):
    """Which jobs of the warehouse's job log to run. By default all queued ones, and those whose runner died."""

    jobs: list[str] = Field([], description="Exactly these, by their ids; empty means all.")


@warehouse_op("Run the queued jobs, oldest first.", kind="spark")
def run_queued(run: WarehouseRun, config: RunQueuedConfig) -> None:
    ran = run.lake.run_jobs(config.jobs or None)
    run.context.add_output_metadata({"jobs": table_value(map(_row, ran)), "ran": len(ran)})
    failed = [job for job in ran if job.status == "failed"]
    if failed:
        raise dg.Failure(
            description=f"{len(failed)} of {len(ran)} jobs failed; the first, {failed[0].job_id}: {failed[0].message}",
            allow_retries=False,  # the runner has tried each as often as the settings say
        )


def _row(job: Job) -> dict[str, str | int]:
    return {
        "job": job.job_id,
        "operation": job.job_type,
        "status": job.status,
        "message": job.message,
        "retries": job.retry_count,
    }


run_queued_job = job_of(run_queued, job_tags("queued", 5, SPARK), "Runs the jobs that were enqueued in the warehouse's job log.")


# `record_job`: books in Dagster what happened outside it.
#
# The warehouse is the source of truth; Dagster's events are outdated after work by the command line, and missing in a new
# Dagster. This books the scopes without an event, and those whose newest event is older than their table, as their newest
# commit left them, with their history. Scopes that cannot be read fail the run, which has booked all others.


class RecordConfig(ScopeSelection):
    """Which scopes to book. By default every scope of the warehouse whose newest event in Dagster is older than its table."""

    again: bool = Field(False, description="Book the others, too.")


@warehouse_op("Read the scopes' newest commits, and book one event for each.")
def record(run: WarehouseRun, config: RecordConfig) -> None:
    lake = run.lake
    tables = [lake.table(name).table for name in config.tables] or lake.tables()
    reports = book_behind(run, tables, config.user, again=config.again)
    broken = [report.scope for report in reports if report.fault and report.fault.code in BROKEN]
    recheck(lake.warehouse, run_here, broken)
    book_health(run, {report.scope.table for report in reports}, failed=bool(broken))
    mark_failed(run.context, run.lake, run.mount, [report for report in reports if report.fault])
    raise_failures(sorted(reports, key=lambda report: report.fault is None or not report.fault.transient))


record_job = job_of(record, job_tags("record", 5), "Books what was done outside of Dagster.")
