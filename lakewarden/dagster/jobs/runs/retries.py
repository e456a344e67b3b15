"""Runs that others retry: what a run that died had committed is booked by its retry, and by no other run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import dagster as dg

from lakewarden.base.clock import Clock
from lakewarden.dagster.resources.lakehouse import begin_of

UNDER_WAY = [
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]

WILL_RETRY = "dagster/will_retry"

_REQUESTED_WITHIN = timedelta(minutes=2)
"""The daemon requests the retry of a run some seconds after the run has failed."""


def awaits_retry(run: dg.DagsterRun, ended: datetime, now: datetime) -> bool:
    """Whether the run failed, and the daemon has yet to request its retry."""
    requested = "dagster/auto_retry_run_id" in run.tags
    return run.tags.get(WILL_RETRY) == "true" and not requested and now - ended < _REQUESTED_WITHIN


def retried_by(instance: dg.DagsterInstance, run: dg.DagsterRun) -> frozenset[str]:
    """The beginnings of the ids of the runs that this one retries."""
    found, run_id = set[str](), run.parent_run_id
    while run_id is not None:
        found.add(begin_of(run_id))
        parent = instance.get_run_by_id(run_id)
        run_id = parent.parent_run_id if parent else None
    return frozenset(found)


def attempts_before(context: dg.OpExecutionContext) -> frozenset[str]:
    """The beginnings of the ids of the runs in whose place this attempt is: those that the run retries, and where the step is
    tried again the run itself. What they committed may have no event yet."""
    own = {begin_of(context.run_id)} if context.retry_number else set[str]()
    return retried_by(context.instance, context.run) | own


def book_themselves(instance: dg.DagsterInstance, own: dg.DagsterRun, clock: Clock) -> frozenset[str]:
    """The beginnings of the ids of the runs whose commits another run than `own` will book: they themselves, or their retries.

    The order matters: what is under way is read again, since a retry may be requested while the failed runs are read.
    """
    wanted = dg.RunsFilter(statuses=UNDER_WAY)
    found = {run.run_id: run for run in instance.get_runs(wanted)}
    now = clock()
    lately = dg.RunsFilter(
        statuses=[dg.DagsterRunStatus.FAILURE], tags={WILL_RETRY: "true"}, updated_after=now - _REQUESTED_WITHIN
    )
    failed = [(one.dagster_run, one.update_timestamp.replace(tzinfo=UTC)) for one in instance.get_run_records(lately)]
    found |= {run.run_id: run for run, ended in failed if awaits_retry(run, ended, now)}
    found |= {run.run_id: run for run in instance.get_runs(wanted)}
    others = [run for run in found.values() if run.run_id != own.run_id]
    return frozenset(map(begin_of, (run.run_id for run in others))).union(*(retried_by(instance, run) for run in others))
