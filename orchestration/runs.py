"""Finds Dagster's runs of an operation, for sensors and schedules."""

from __future__ import annotations

import dagster as dg

from jobs.tags import OPERATION, Importance

UNDER_WAY = [
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


def under_way(instance: dg.DagsterInstance, operation: Importance) -> bool:
    """Whether a run of the operation is queued or running, however it was started."""
    wanted = dg.RunsFilter(tags={OPERATION: operation}, statuses=UNDER_WAY)
    return bool(instance.get_run_records(wanted, limit=1))
