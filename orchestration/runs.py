"""Dagster's runs by their operation, as sensors and schedules look at them."""

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
    """Whether a run of the operation waits or works, whoever started it."""
    wanted = dg.RunsFilter(tags={OPERATION: operation}, statuses=UNDER_WAY)
    return bool(instance.get_run_records(wanted, limit=1))
