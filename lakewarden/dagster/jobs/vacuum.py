"""`vacuum_job`: deletes files that no version inside the retention needs."""

from pydantic import Field

from lakewarden.dagster.jobs.forms import op_on_scopes, plan_field, takes_options
from lakewarden.dagster.jobs.runs import SPARK, WithLook, job_of, job_tags


@takes_options("vacuum")
class VacuumConfig(WithLook):
    """Which scopes to vacuum, and how much history to keep. By default, it lists the files and deletes nothing."""

    dry_run: bool = Field(True, description="Only list the files that would be deleted. Set it to false to delete them.")
    plan: str = plan_field()


_op = op_on_scopes("vacuum", VacuumConfig, "Vacuum the scopes, and book one event for each.")
vacuum_job = job_of(_op, job_tags("vacuum", -10, SPARK), "Deletes files past the retention; dry run by default.")
