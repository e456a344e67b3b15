"""`evict_job`: removes expired rows of STREAM tables from the write log."""

import dagster as dg
from pydantic import Field

from lakewarden.client import Lakehouse
from lakewarden.dagster.jobs.event_log.book import book
from lakewarden.dagster.jobs.forms import plan_field, plan_link, run_or_apply
from lakewarden.dagster.jobs.runs import RETRIES, ScopeSelection, declined, job_of, job_tags
from lakewarden.dagster.mount import Mount


class EvictConfig(ScopeSelection):
    """Which scopes of STREAM tables to evict from. By default all of them, as a dry run. Evicted rows cannot be restored."""

    dry_run: bool = Field(True, description="Only report how many rows would be removed. Set it to false to remove them.")
    plan: str = plan_field()


@dg.op(retry_policy=RETRIES, description="Evict expired rows, and book one event for each scope that had some.")
def evict(
    context: dg.OpExecutionContext, config: EvictConfig, lake: dg.ResourceParam[Lakehouse], mount: dg.ResourceParam[Mount]
) -> None:
    with declined(context):
        options = {"user": config.user}
        reports = run_or_apply(lake, "evict", config.tables, options, dry_run=config.dry_run, plan=config.plan)
        context.add_output_metadata(plan_link(context, reports))
        book(context, lake, mount, reports, preview=config.dry_run)


evict_job = job_of(evict, job_tags("evict", 10), "Removes expired STREAM rows; dry run by default.")
