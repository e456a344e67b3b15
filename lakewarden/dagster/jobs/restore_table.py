"""A restore job for each table: its form has two fields and, where users are partitions, the selector of these.

No `from __future__ import annotations`: Dagster reads the config class from the annotation.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import dagster as dg
from pydantic import Field

from lakewarden.base.scope import Scope
from lakewarden.catalog.model import Catalog, Table
from lakewarden.catalog.report import ScopeReport
from lakewarden.client import Lakehouse
from lakewarden.dagster.assets.history import history_table, line_of_entry
from lakewarden.dagster.assets.links import RESTORE, plan_form, restore_job_name, versions_form
from lakewarden.dagster.jobs.booking.book import book
from lakewarden.dagster.jobs.plans import plan_field, planned_restore
from lakewarden.dagster.jobs.restore import RESTORE_TAGS, moment
from lakewarden.dagster.jobs.runs.failures import RETRIES, declined
from lakewarden.dagster.jobs.runs.tags import TABLE, subject_tags, tag_run
from lakewarden.dagster.mount import Mount
from lakewarden.errors import InvalidArgument
from lakewarden.maintenance.request import new_request
from lakewarden.tables.warehouse import cold_tables


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


@dg.op(name=RESTORE, retry_policy=RETRIES, description="Show what a restore of one scope would do, or do what was planned.")
def restore_table(
    context: dg.OpExecutionContext, config: RestoreTableConfig, lake: dg.ResourceParam[Lakehouse], mount: dg.ResourceParam[Mount]
) -> None:
    with declined(context):
        scope = _scope(context, lake, config.user, config.plan)
        tag_run(context, subject_tags({"user": scope.user}))
        if config.to == "" and not config.plan:
            context.add_output_metadata(_versions(lake, mount, scope, config.before))
            return
        reports = _run(lake, scope, config)
        if not config.plan:
            from lakewarden.dagster.jobs.restored_rows import rows_of  # builds SQL, which only a preview needs

            context.add_output_metadata({**_apply_link(context, reports), **rows_of(lake, reports)})
        book(context, lake, mount, reports, preview=not config.plan)


def _versions(lake: Lakehouse, mount: Mount, scope: Scope, before: int | None) -> dict[str, dg.MetadataValue]:
    """The newest of the versions, and a link to those beyond."""
    found = lake.table(str(scope.table)).history(user=scope.user, limit=LISTED, before_version=before)
    last = found[-1].version if found else 0
    older = {"older": dg.MetadataValue.url(versions_form(mount, scope, before=last))} if last else {}
    return {"versions": history_table(map(line_of_entry, found)), **older}


def _run(lake: Lakehouse, scope: Scope, config: RestoreTableConfig) -> list[ScopeReport]:
    name, user = str(scope.table), scope.user
    if config.plan and config.to == "":
        return lake.apply(config.plan, only=planned_restore(lake, config.plan, scope.table, user))
    version, timestamp = parse_target(config.to)
    if config.plan:
        return lake.apply(config.plan, only=new_request("restore", (name,), user=user, version=version, timestamp=timestamp))
    return lake.restore(name, user=user, version=version, timestamp=timestamp, dry_run=True)


def _apply_link(context: dg.OpExecutionContext, reports: Sequence[ScopeReport]) -> dict[str, dg.MetadataValue]:
    """The form with the plan alone, which knows the scope and the state: a run's page shows the whole URL."""
    plan_id = next((report.plan_id for report in reports if report.outcome == "planned"), None)
    return {} if plan_id is None else {"apply": dg.MetadataValue.url(plan_form(context.job_name, RESTORE, plan_id))}


def parse_target(to: object) -> tuple[int | None, datetime | None]:
    """The version or the time that a form names.

    Raises:
        InvalidArgument: it is neither.
    """
    text = str(to).strip()
    if text.isdecimal():
        return int(text), None
    try:
        return None, moment(text)
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


@dg.graph
def restore_one_scope() -> None:
    restore_table()


def build_restore_jobs(mount: Mount, catalog: Catalog, resources: Mapping[str, object]) -> list[dg.JobDefinition]:
    """One for each table that has versions."""
    return [_job(mount, table, resources) for table in cold_tables(catalog)]


def _job(mount: Mount, table: Table, resources: Mapping[str, object]) -> dg.JobDefinition:
    return restore_one_scope.to_job(
        name=restore_job_name(mount, table.name),
        description=f"Brings {_whose(table)} {table.name} back to a version or a time: first shows, then does exactly that.",
        resource_defs=resources,
        executor_def=dg.in_process_executor,
        tags={**RESTORE_TAGS, **mount.tags, TABLE: str(table.name)},
        partitions_def=None if table.type == "SHARED" else dg.DynamicPartitionsDefinition(name=mount.dotted(table.name)),
    )


def _whose(table: Table) -> str:
    return "the rows of" if table.type == "SHARED" else "one user's rows of"
