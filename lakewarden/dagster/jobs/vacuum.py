"""`vacuum_job`: deletes files that no version inside the retention needs."""

import dagster as dg
from pydantic import Field

from lakewarden.catalog.operations import PlanOptions
from lakewarden.client import Lakehouse
from lakewarden.dagster.jobs.booking.book import book
from lakewarden.dagster.jobs.plans import plan_field, plan_link, run_or_apply
from lakewarden.dagster.jobs.runs import RETRIES, SPARK, WithLook, declined, job_tags
from lakewarden.dagster.mount import Mount


class VacuumConfig(WithLook):
    """Which scopes to vacuum, and how much history to keep. By default, it lists the files and deletes nothing."""

    retain_hours: float | None = Field(
        None, description="Hours to keep removed files. None: the table's DELETED_RETENTION_HOURS, else the setting (168)."
    )
    force: bool = Field(
        False, description="Allow a retention below 168 hours: versions in that time can then no longer be restored."
    )
    ignore_checks: bool = Field(
        False, description="Vacuum scopes that failed a check, too: the files that are deleted may be the ones that mend them."
    )
    dry_run: bool = Field(True, description="Only list the files that would be deleted. Set it to false to delete them.")
    plan: str = plan_field()


@dg.op(retry_policy=RETRIES, tags={"kind": "spark"}, description="Vacuum the scopes, and book one event for each.")
def vacuum(
    context: dg.OpExecutionContext, config: VacuumConfig, lake: dg.ResourceParam[Lakehouse], mount: dg.ResourceParam[Mount]
) -> None:
    with declined(context):
        options = PlanOptions(
            user=config.user,
            retain_hours=config.retain_hours,
            force=config.force,
            ignore_checks=config.ignore_checks,
            look=config.look,
        )
        reports = run_or_apply(lake, "vacuum", config.tables, options, dry_run=config.dry_run, plan=config.plan)
        context.add_output_metadata(plan_link(context, reports))
        book(context, lake, mount, reports, preview=config.dry_run)


@dg.job(
    executor_def=dg.in_process_executor,
    tags=job_tags("vacuum", -10, SPARK),
    description="Deletes files past the retention; dry run by default.",
)
def vacuum_job() -> None:
    vacuum()
