"""`record_job`: books in Dagster what happened outside it.

The warehouse is the source of truth; Dagster's events are outdated after work by the command line, and missing in a new
Dagster. This books the scopes without an event, and those whose newest event is older than their table, as their newest
commit left them, with their history. Scopes that cannot be read fail the run, which has booked all others.
"""

import dagster as dg
from pydantic import Field

from lakewarden.client import Lakehouse
from lakewarden.dagster.jobs.booking.behind import book_behind
from lakewarden.dagster.jobs.booking.failed_partitions import mark_failed
from lakewarden.dagster.jobs.runs.failures import RETRIES, declined, raise_failures
from lakewarden.dagster.jobs.runs.selection import ScopeSelection
from lakewarden.dagster.jobs.runs.tags import job_tags
from lakewarden.dagster.mount import Mount


class RecordConfig(ScopeSelection):
    """Which scopes to book. By default every scope of the warehouse whose newest event in Dagster is older than its table."""

    again: bool = Field(False, description="Book the others, too.")


@dg.op(retry_policy=RETRIES, description="Read the scopes' newest commits, and book one event for each.")
def record(
    context: dg.OpExecutionContext, config: RecordConfig, lake: dg.ResourceParam[Lakehouse], mount: dg.ResourceParam[Mount]
) -> None:
    with declined(context):
        tables = [lake.table(name).table for name in config.tables] or lake.tables()
        reports = book_behind(context, lake, mount, tables, config.user, again=config.again)
        mark_failed(context, lake, mount, [report for report in reports if report.fault])
        raise_failures(sorted(reports, key=lambda report: report.fault is None or not report.fault.transient))


@dg.job(executor_def=dg.in_process_executor, tags=job_tags("record", 5), description="Books what was done outside of Dagster.")
def record_job() -> None:
    record()
