"""Links to the launchpad with its form filled in."""

from __future__ import annotations

from collections.abc import Mapping

import dagster as dg

from lakewarden.base.scope import Scope, TableName
from lakewarden.client.dagster_links import RESTORE, form_path
from lakewarden.dagster.mount import Mount


def launchpad(
    job: str,
    config: Mapping[str, object],
    partition: str | None = None,
    *,
    op: str | None = None,
    mount: Mount | None = None,
) -> str:
    """The URL of a job's form, filled; relative to the web server, whatever its address and the code location's name.

    Args:
        config: of the job's only op.
        partition: the partition that the form selects.
        op: the op's name; without it, the job's name without `_job`.
        mount: the warehouse whose job it is, unless `job` is the whole name.
    """
    return form_path(mount.named(job) if mount else job, op or job.removesuffix("_job"), config, partition)


def link(text: str, url: str) -> dg.MetadataValue:
    """A link as metadata. `MetadataValue.url` would show the whole URL as its text."""
    return dg.MetadataValue.md(f"[{text}]({url})")


OPTIMIZE = "optimize_partition"
"""The op of the job that optimizes one partition of a large table."""


COMPACT = "compact_partition"
"""The op of its compact job."""


def optimize_form(mount: Mount, table: TableName, partition: str) -> str:
    """The form that optimizes one partition of a large table."""
    return launchpad(mount.table_named("optimize", table), {"zorder": []}, partition, op=OPTIMIZE)


def repair_form(mount: Mount, scope: Scope) -> str:
    """The form that shows what a repair of the scope would do, for people to launch."""
    users = {} if scope.user is None else {"user": scope.user}
    return launchpad("repair_job", {"table": str(scope.table), **users}, mount=mount)


def restore_form(mount: Mount, scope: Scope) -> str:
    """The form that restores the scope, for people to type a version or a time into."""
    return launchpad(mount.table_named("restore", scope.table), {"to": ""}, scope.user, op=RESTORE)


def versions_form(mount: Mount, scope: Scope, *, before: int) -> str:
    """The same form, to list the scope's versions below one."""
    return launchpad(mount.table_named("restore", scope.table), {"before": before}, scope.user, op=RESTORE)
