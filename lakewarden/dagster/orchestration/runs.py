"""Finds Dagster's runs: of an operation, those that hold the queue's slots, and those that ended without booking."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import dagster as dg

from lakewarden.dagster.jobs.runs.failures import step_failures
from lakewarden.dagster.jobs.runs.retries import UNDER_WAY, WILL_RETRY
from lakewarden.dagster.jobs.runs.tags import OPERATION
from lakewarden.dagster.mount import Mount


def under_way(instance: dg.DagsterInstance, mount: Mount, operation: str) -> bool:
    """Whether a run of the operation on this warehouse is queued or running, however it was started."""
    wanted = dg.RunsFilter(tags={OPERATION: operation, **mount.tags}, statuses=UNDER_WAY)
    return bool(instance.get_run_records(wanted, limit=1))


_IN_PROCESS = [dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING]
_SHOWN = 3


def holders(instance: dg.DagsterInstance) -> str:
    """Which runs hold the slots of the queue, and since when, as text for people; empty when none does."""
    runs = shown(in_process(instance))
    return f"running: {runs}" if runs else ""


def in_process(instance: dg.DagsterInstance) -> Sequence[dg.RunRecord]:
    """The runs that hold slots, the oldest first."""
    return instance.get_run_records(dg.RunsFilter(statuses=_IN_PROCESS), ascending=True)


def shown(records: Sequence[dg.RunRecord]) -> str:
    """The first of the runs, and since when they run, as text for people."""
    return ", ".join(map(_shown, records[:_SHOWN])) + (", and more" if len(records) > _SHOWN else "")


def _shown(record: dg.RunRecord) -> str:
    since = datetime.fromtimestamp(record.start_time, UTC) if record.start_time else record.create_timestamp
    return f"{record.dagster_run.job_name} {record.dagster_run.run_id[:8]} (since {since:%H:%M:%S} UTC)"


_CUT_OFF = [dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]
_STEP_FAILED = "STEP_FAILURE"


def cut_off(instance: dg.DagsterInstance, mount: Mount, since: datetime, limit: int) -> Sequence[dg.RunRecord]:
    """The warehouse's runs that ended since without booking what they had committed, and that no retry books; oldest first."""
    wanted = dg.RunsFilter(tags=mount.tags, statuses=_CUT_OFF, updated_after=since)
    found = instance.get_run_records(wanted, limit=limit, ascending=True)
    return [record for record in found if _is_cut_off(instance, record.dagster_run)]


def _is_cut_off(instance: dg.DagsterInstance, run: dg.DagsterRun) -> bool:
    """Whether it ended without booking. An op that fails has booked before, unless booking itself failed."""
    if OPERATION not in run.tags or run.tags.get(WILL_RETRY) == "true":
        return False
    failed_itself = run.tags.get("dagster/failure_reason") == _STEP_FAILED
    return not failed_itself or None in step_failures(instance, run.run_id)
