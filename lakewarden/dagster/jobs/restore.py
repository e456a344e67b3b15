"""`restore_job`: restores scopes to an earlier version or time; and a job for each table that restores one scope in two looks.

No `from __future__ import annotations`: Dagster reads the config class from the annotation.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

import dagster as dg
from pydantic import Field

from lakewarden.base.scope import Scope, TableName
from lakewarden.catalog.model import Catalog, Table
from lakewarden.catalog.report import ScopeReport
from lakewarden.client import Lakehouse
from lakewarden.client.dagster_links import RESTORE
from lakewarden.dagster.assets.links import versions_form
from lakewarden.dagster.assets.metadata import history_table, line_of_entry
from lakewarden.dagster.jobs.event_log.book import book
from lakewarden.dagster.jobs.forms import (
    check_plan,
    option_values,
    plan_field,
    plan_link,
    planned_restore,
    run_or_apply,
    takes_options,
)
from lakewarden.dagster.jobs.runs import (
    TABLE,
    job_of,
    job_of_table,
    job_tags,
    subject_tags,
    tag_run,
    warehouse_op,
)
from lakewarden.dagster.lakehouse import WarehouseRun
from lakewarden.dagster.mount import Mount
from lakewarden.delta.past import parse_moment
from lakewarden.errors import InvalidArgument
from lakewarden.maintenance.request import new_request
from lakewarden.tables.warehouse import cold_tables

RESTORE_TAGS = job_tags("restore", 20)


class ToVersion(dg.Config):
    """Back to a Delta version: the history of the scope's partition lists them."""

    by: Literal["version"] = "version"
    version: int = Field(description="The Delta version. Each scope has its own versions: on a USER table give the user too.")


class ToTimestamp(dg.Config):
    """Back to a time: every scope to its newest version at that time."""

    by: Literal["timestamp"] = "timestamp"
    timestamp: str = Field(description="The time in ISO 8601, such as 2026-11-21T08:30:00Z; without an offset it is UTC.")


_NO_TARGET = ToTimestamp(timestamp="")
"""What the form has until somebody fills it in: a plan needs no other. The launchpad checks no time: Dagster checks constraints
when the run has started."""


@takes_options("restore")
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
    dry_run: bool = Field(
        True, description="Only show which rows and files would be added and removed. Set it to false to restore."
    )
    plan: str = plan_field()


@warehouse_op("Restore the scopes, and book one event for each.")
def restore(run: WarehouseRun, config: RestoreConfig) -> None:
    reports = _run(run.lake, config)
    run.context.add_output_metadata(plan_link(run.context, reports, "table"))
    book(run, reports, preview=config.dry_run)


def _run(lake: Lakehouse, config: RestoreConfig) -> list[ScopeReport]:
    target = config.target
    if config.plan and target == _NO_TARGET:
        check_plan(config)
        return lake.apply(config.plan, only=planned_restore(lake, config.plan, TableName.parse(config.table), config.user))
    version = target.version if isinstance(target, ToVersion) else None
    timestamp = parse_moment(target.timestamp) if isinstance(target, ToTimestamp) else None
    options = {**option_values(config, "restore"), "version": version, "timestamp": timestamp}
    return run_or_apply(lake, "restore", (config.table,), options, config)


restore_job = job_of(restore, RESTORE_TAGS, "Restores scopes to a version; dry run by default.")


# A restore job for each table: its form has two fields and, where users are partitions, the selector of these.


class RestoreTableConfig(dg.Config):
    """The state to go back to. Nothing changes before a plan is given.

    With `to`, the run shows rows that would come and go; its link `apply` fills this form with the plan, and launching that does
    exactly what was shown. Left empty, the run lists the versions.
    """

    to: Any = Field(  # a version is a number in YAML, a time is text
        "", description="A version, such as 3, or a time, such as 2026-11-21T08:30:00Z; without an offset it is UTC."
    )
    plan: str = plan_field()
    user: str = Field("", description="The user, where users are no partitions: of a table of more than 100,000.")
    before: int | None = Field(None, description="Where `to` is empty: list the versions below this one.")


LISTED = 100
"""Versions that a run lists."""


@warehouse_op("Show what a restore of one scope would do, or do what was planned.", name=RESTORE)
def restore_table(run: WarehouseRun, config: RestoreTableConfig) -> None:
    context, lake = run.context, run.lake
    scope = _scope(context, lake, config.user, config.plan)
    tag_run(context, subject_tags({"user": scope.user}))
    if config.to == "" and not config.plan:
        context.add_output_metadata(_versions(lake, run.mount, scope, config.before))
        return
    reports = _run_on_table(lake, scope, config)
    if not config.plan:
        from lakewarden.dagster.assets.restored_rows import rows_of  # builds SQL, which only a preview needs

        context.add_output_metadata({**plan_link(context, reports), **rows_of(lake, reports)})
    book(run, reports, preview=not config.plan)


def _versions(lake: Lakehouse, mount: Mount, scope: Scope, before: int | None) -> dict[str, dg.MetadataValue]:
    """The newest of the versions, and a link to those beyond."""
    found = lake.table(str(scope.table)).history(user=scope.user, limit=LISTED, before_version=before)
    last = found[-1].version if found else 0
    older = {"older": dg.MetadataValue.url(versions_form(mount, scope, before=last))} if last else {}
    return {"versions": history_table(map(line_of_entry, found)), **older}


def _run_on_table(lake: Lakehouse, scope: Scope, config: RestoreTableConfig) -> list[ScopeReport]:
    name, user = str(scope.table), scope.user
    if config.plan and config.to == "":
        return lake.apply(config.plan, only=planned_restore(lake, config.plan, scope.table, user))
    version, timestamp = parse_target(config.to)
    if config.plan:
        return lake.apply(config.plan, only=new_request("restore", (name,), user=user, version=version, timestamp=timestamp))
    return lake.restore(name, user=user, version=version, timestamp=timestamp, dry_run=True)


def parse_target(to: object) -> tuple[int | None, datetime | None]:
    """The version or the time that a form names.

    Raises:
        InvalidArgument: it is neither.
    """
    text = str(to).strip()
    if text.isdecimal():
        return int(text), None
    try:
        return None, parse_moment(text)
    except InvalidArgument as error:
        raise InvalidArgument(
            f"to: {text!r} is neither a version, such as 3, nor a time, such as 2026-11-21T08:30:00Z"
        ) from error


def _scope(context: dg.OpExecutionContext, lake: Lakehouse, user: str, plan: str) -> Scope:
    """The scope that the form selects, or that its plan is for.

    Raises:
        InvalidArgument: no user of a table that has users, or a plan for another scope or operation.
    """
    table = lake.table(context.job_def.tags[TABLE]).table
    chosen = context.partition_key if context.has_partition_key else user or None
    if plan:
        chosen = planned_restore(lake, plan, table.name, chosen).user
    if table.type == "SHARED":
        return Scope(table.name)
    if not chosen:
        raise InvalidArgument(
            f"{table.name} has a state for each user: select the user's partition in the form, or where users are no partitions"
            " give `user`"
        )
    return Scope(table.name, chosen)


def build_restore_jobs(mount: Mount, catalog: Catalog, resources: Mapping[str, object]) -> list[dg.JobDefinition]:
    """One for each table that has versions."""
    return [_job(mount, table, resources) for table in cold_tables(catalog)]


def _job(mount: Mount, table: Table, resources: Mapping[str, object]) -> dg.JobDefinition:
    whose, users = "the rows of", None
    if table.type != "SHARED":
        whose, users = "one user's rows of", dg.DynamicPartitionsDefinition(name=mount.dotted(table.name))
    said = f"Brings {whose} {table.name} back to a version or a time: first shows, then does exactly that."
    return job_of_table(restore_table, mount, table.name, resources, RESTORE_TAGS, said, users)
