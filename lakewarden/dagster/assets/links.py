"""Links to the launchpad with its form filled in."""

from __future__ import annotations

import dagster as dg

from lakewarden.base.scope import Scope, TableName
from lakewarden.client.dagster_links import RESTORE, form_path
from lakewarden.dagster.mount import Mount


def link(text: str, url: str) -> dg.MetadataValue:
    """A link as metadata. `MetadataValue.url` would show the whole URL as its text."""
    return dg.MetadataValue.md(f"[{text}]({url})")


OPTIMIZE = "optimize_partition"
"""The op of the job that optimizes one partition of a large table."""

COMPACT = "compact_partition"
"""The op of its compact job."""


def optimize_form(mount: Mount, table: TableName, partition: str) -> str:
    """The form that optimizes one partition of a large table."""
    return form_path(mount.table_named("optimize", table), OPTIMIZE, {"zorder": []}, partition)


def repair_form(mount: Mount, scope: Scope) -> str:
    """The form that shows what a repair of the scope would do, for people to launch."""
    users = {} if scope.user is None else {"user": scope.user}
    return form_path(mount.named("repair_job"), "repair", {"table": str(scope.table), **users})


def restore_form(mount: Mount, scope: Scope) -> str:
    """The form that restores the scope, for people to type a version or a time into."""
    return form_path(mount.table_named("restore", scope.table), RESTORE, {"to": ""}, scope.user)


def versions_form(mount: Mount, scope: Scope, *, before: int) -> str:
    """The same form, to list the scope's versions below one."""
    return form_path(mount.table_named("restore", scope.table), RESTORE, {"before": before}, scope.user)
