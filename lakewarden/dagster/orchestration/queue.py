"""Says of each run that waits in the queue which runs hold its slots: Dagster's pages show its limits alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import dagster as dg

from lakewarden.client import Lakehouse
from lakewarden.dagster.jobs.runs.tags import QUEUED_BEHIND
from lakewarden.dagster.mount import Mount
from lakewarden.dagster.orchestration.runs import in_process, shown

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
