"""`vacuum_job`: deletes files that no version inside the retention needs."""

import dagster as dg
from pydantic import Field

from lakewarden.client import Lakehouse
from lakewarden.dagster.jobs.event_log.book import book
from lakewarden.dagster.jobs.forms import option_values, plan_field, plan_link, run_or_apply, takes_options
from lakewarden.dagster.jobs.runs import RETRIES, SPARK, WithLook, declined, job_of, job_tags
from lakewarden.dagster.mount import Mount


@takes_options("vacuum")
class VacuumConfig(WithLook):
    """Which scopes to vacuum, and how much history to keep. By default, it lists the files and deletes nothing."""

    dry_run: bool = Field(True, description="Only list the files that would be deleted. Set it to false to delete them.")
    plan: str = plan_field()


@dg.op(retry_policy=RETRIES, tags={"kind": "spark"}, description="Vacuum the scopes, and book one event for each.")
def vacuum(
    context: dg.OpExecutionContext, config: VacuumConfig, lake: dg.ResourceParam[Lakehouse], mount: dg.ResourceParam[Mount]
) -> None:
    with declined(context):
        options = option_values(config, "vacuum")
        reports = run_or_apply(lake, "vacuum", config.tables, options, dry_run=config.dry_run, plan=config.plan)
        context.add_output_metadata(plan_link(context, reports))
        book(context, lake, mount, reports, preview=config.dry_run)


vacuum_job = job_of(vacuum, job_tags("vacuum", -10, SPARK), "Deletes files past the retention; dry run by default.")
