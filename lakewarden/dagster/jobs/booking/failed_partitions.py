"""Turns the partitions red of scopes that failed.

Dagster calls a partition failed if a run planned to materialize it, has not, and failed. A run of a job plans none, so this adds
the plan for the scopes that failed, in the run that is about to. The scope's next event turns its partition green again. The call
is not public, so it is isolated here, and a test fails when Dagster changes it.
"""

from __future__ import annotations

from collections.abc import Sequence

import dagster as dg
from dagster._core.events import AssetMaterializationPlannedData, DagsterEvent

from lakewarden.dagster.assets.partition_values import is_key
from lakewarden.dagster.jobs.booking.events import register_users
from lakewarden.dagster.mount import Mount
from lakewarden.report import ScopeReport

_MOST = 100
"""Each costs an event by itself; with more failed scopes than this, the fault is hardly theirs."""


def mark_failed(context: dg.OpExecutionContext, mount: Mount, failed: Sequence[ScopeReport]) -> None:
    """Call this before the failure is raised."""
    shown = [report for report in failed if is_key(report.scope.user or "")][:_MOST]
    register_users(context.instance, mount, [report.scope for report in shown])
    for report in shown:
        planned = AssetMaterializationPlannedData(mount.asset_key(report.scope.table), partition=report.scope.user)
        event = DagsterEvent.build_asset_materialization_planned_event(context.job_name, str(context.op_handle), planned)
        context.instance.report_dagster_event(event, context.run_id)
