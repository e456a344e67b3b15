"""`restore_job`: restores scopes to an earlier version or time."""

from datetime import UTC, datetime
from typing import Literal

import dagster as dg
from pydantic import Field

from lakewarden.base.scope import TableName
from lakewarden.catalog.operations import PlanOptions
from lakewarden.catalog.report import ScopeReport
from lakewarden.client import Lakehouse
from lakewarden.dagster.jobs.booking.book import book
from lakewarden.dagster.jobs.plans import check_plan, plan_field, plan_link, planned_restore, run_or_apply
from lakewarden.dagster.jobs.runs.failures import RETRIES, declined
from lakewarden.dagster.jobs.runs.tags import job_tags
from lakewarden.dagster.mount import Mount
from lakewarden.errors import InvalidArgument

RESTORE_TAGS = job_tags("restore", 20)


class ToVersion(dg.Config):
    """Back to a Delta version: the history of the scope's partition lists them."""

    by: Literal["version"] = "version"
    version: int = Field(description="The Delta version. Each scope has its own versions: on a USER table give the user too.")


class ToTimestamp(dg.Config):
    """Back to a time: every scope to its newest version at that time."""

    by: Literal["timestamp"] = "timestamp"
    timestamp: str = Field(description="The time in ISO 8601, such as 2026-11-21T08:30:00Z; without an offset it is UTC.")


def moment(text: str) -> datetime:
    """A time as people write it into a form; without an offset it is UTC.

    Raises:
        InvalidArgument: not a time. The launchpad cannot check it: Dagster checks constraints when the run has started.
    """
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidArgument(f"timestamp {text!r} is not a time: write it as 2026-11-21T08:30:00Z") from error
    return found if found.tzinfo else found.replace(tzinfo=UTC)


_NO_TARGET = ToTimestamp(timestamp="")
"""What the form has until somebody fills it in: a plan needs no other."""


class RestoreConfig(dg.Config):
    """What to bring back, and to which state. By default, it only shows which rows and files would change.

    Example: {table: chat.messages, user: u_42, target: {version: {version: 3}}, dry_run: false}
    """

    table: str = Field(description="The table, as namespace.table.")
    user: str | None = Field(None, description="The user of a USER table's scope. None with a timestamp: all users.")
    target: ToVersion | ToTimestamp = Field(
        _NO_TARGET,
        discriminator="by",
        description="Where to: {version: {version: 3}} or {timestamp: {timestamp: 2026-11-21T08:30:00Z}}. A `plan` needs none.",
    )
    discard_pending: bool = Field(
        False, description="Drop the scope's pending rows. By default they are flushed first, and the restore undoes them."
    )
    dry_run: bool = Field(
        True, description="Only show which rows and files would be added and removed. Set it to false to restore."
    )
    plan: str = plan_field()


@dg.op(retry_policy=RETRIES, description="Restore the scopes, and book one event for each.")
def restore(
    context: dg.OpExecutionContext, config: RestoreConfig, lake: dg.ResourceParam[Lakehouse], mount: dg.ResourceParam[Mount]
) -> None:
    with declined(context):
        reports = _run(lake, config)
        context.add_output_metadata(plan_link(context, reports))
        book(context, lake, mount, reports, preview=config.dry_run)


def _run(lake: Lakehouse, config: RestoreConfig) -> list[ScopeReport]:
    target = config.target
    if config.plan and target == _NO_TARGET:
        check_plan(config.plan, dry_run=config.dry_run)
        return lake.apply(config.plan, only=planned_restore(lake, config.plan, TableName.parse(config.table), config.user))
    version = target.version if isinstance(target, ToVersion) else None
    timestamp = moment(target.timestamp) if isinstance(target, ToTimestamp) else None
    options = PlanOptions(user=config.user, version=version, timestamp=timestamp, discard_pending=config.discard_pending)
    return run_or_apply(lake, "restore", (config.table,), options, dry_run=config.dry_run, plan=config.plan)


@dg.job(
    executor_def=dg.in_process_executor,
    tags=RESTORE_TAGS,
    description="Restores scopes to a version; dry run by default.",
)
def restore_job() -> None:
    restore()
