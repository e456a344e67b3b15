"""`evict_job`: removes expired rows of STREAM tables from the write log."""

from pydantic import Field

from lakewarden.dagster.jobs.forms import op_on_scopes, plan_field
from lakewarden.dagster.jobs.runs import ScopeSelection, job_of, job_tags


class EvictConfig(ScopeSelection):
    """Which scopes of STREAM tables to evict from. By default all of them, as a dry run. Evicted rows cannot be restored."""

    dry_run: bool = Field(True, description="Only report how many rows would be removed. Set it to false to remove them.")
    plan: str = plan_field()


_op = op_on_scopes("evict", EvictConfig, "Evict expired rows, and book one event for each scope that had some.", kind="")
evict_job = job_of(_op, job_tags("evict", 10), "Removes expired STREAM rows; dry run by default.")
