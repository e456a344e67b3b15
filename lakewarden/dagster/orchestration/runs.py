"""Finds Dagster's runs: of an operation, those that hold the queue's slots, and those that ended without booking."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

import dagster as dg

from lakewarden.client import Lakehouse
from lakewarden.dagster.jobs.runs import IN_VAIN, OPERATION, QUEUED_BEHIND, UNDER_WAY, WILL_RETRY, step_failures
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


_STEP_FAILED = "STEP_FAILURE"


def cut_off(instance: dg.DagsterInstance, mount: Mount, since: datetime, limit: int) -> Sequence[dg.RunRecord]:
    """The warehouse's runs that ended since without booking what they had committed, and that no retry books; oldest first."""
    wanted = dg.RunsFilter(tags=mount.tags, statuses=IN_VAIN, updated_after=since)
    found = instance.get_run_records(wanted, limit=limit, ascending=True)
    return [record for record in found if _is_cut_off(instance, record.dagster_run)]


def _is_cut_off(instance: dg.DagsterInstance, run: dg.DagsterRun) -> bool:
    """Whether it ended without booking. An op that fails has booked before, unless booking itself failed."""
    if OPERATION not in run.tags or run.tags.get(WILL_RETRY) == "true":
        return False
    failed_itself = run.tags.get("dagster/failure_reason") == _STEP_FAILED
    return not failed_itself or None in step_failures(instance, run.run_id)


# Says of each run that waits in the queue which runs hold its slots: Dagster's pages show its limits alone.
_WAITING_SHOWN = 50
"""Runs that a tick looks at, those that wait longest."""


def queue_sensor(context: dg.SensorEvaluationContext, _lake: Lakehouse, mount: Mount) -> dg.SkipReason:
    """Writes on each waiting run which runs hold its slots and since when: the tag `lakewarden/queued_behind`."""
    waiting = context.instance.get_runs(
        dg.RunsFilter(tags=mount.tags, statuses=[dg.DagsterRunStatus.QUEUED]), limit=_WAITING_SHOWN, ascending=True
    )
    if not waiting:
        return dg.SkipReason("no run waits")
    found = behind(context.instance, waiting)
    for run in waiting:
        # only the tags are written: the status of a run that starts meanwhile has a column of its own
        if (text := found.get(run.run_id)) and run.tags.get(QUEUED_BEHIND) != text:
            context.instance.add_run_tags(run.run_id, {QUEUED_BEHIND: text})
    return dg.SkipReason(
        "; ".join(f"{run.job_name} {run.run_id[:8]} waits behind {found.get(run.run_id, _NO_RUN)}" for run in waiting)
    )


_NO_RUN = "no run: it starts with the daemon's next look"


def behind(instance: dg.DagsterInstance, waiting: Sequence[dg.DagsterRun]) -> dict[str, str]:
    """The runs that hold the slots of each of the waiting ones, as text for people, by the waiting runs' ids."""
    queue = instance.get_concurrency_config().run_queue_config
    if queue is None:
        return {}
    active = in_process(instance)
    full = 0 <= queue.max_concurrent_runs <= len(active)
    held = {run.run_id: active if full else list(_holders(run, active, queue.tag_concurrency_limits)) for run in waiting}
    return {run_id: shown(runs) for run_id, runs in held.items() if runs}


def _holders(
    run: dg.DagsterRun, active: Sequence[dg.RunRecord], limits: Sequence[Mapping[str, object]]
) -> Iterator[dg.RunRecord]:
    """The active runs of each limit that is reached for this run."""
    for limit in limits:
        key, value = str(limit["key"]), limit.get("value")
        mine = run.tags.get(key)
        if mine is None or (isinstance(value, str) and value != mine):
            continue
        same = [one for one in active if key in one.dagster_run.tags and (value is None or one.dagster_run.tags[key] == mine)]
        if len(same) >= int(str(limit["limit"])):
            yield from same
