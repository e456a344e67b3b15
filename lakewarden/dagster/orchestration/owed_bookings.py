"""Bookings that a sensor has requested, and that no run has done yet: its cursor holds them until one has.

A run counts by its place behind the newest one at the time of the request, in Dagster's own order: no clocks are compared.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import dagster as dg

from lakewarden.dagster.jobs.runs.failures import code_of, step_failures
from lakewarden.dagster.jobs.runs.retries import awaits_retry
from lakewarden.dagster.jobs.runs.selection import op_config
from lakewarden.dagster.jobs.runs.tags import OPERATION, tables_in
from lakewarden.dagster.mount import Mount
from lakewarden.dagster.orchestration.flushing import wait_after
from lakewarden.errors import Transient

_SUBMITTED_WITHIN = timedelta(minutes=2)
"""A run that a tick requests is created as the tick ends."""

_RUNS_SEEN = 100

_IN_VAIN = {None, *(kind.code for kind in Transient.__subclasses__())}
"""Codes of failures behind which the same may succeed. None: it is no failure of Lakewarden's; Dagster's storage was locked."""


@dataclass(frozen=True)
class OwedBookings:
    """Tables whose scopes are to be booked."""

    tables: tuple[str, ...]
    after: int
    """The number of the newest run that booked or was about to, before this was requested."""
    requested: datetime
    attempts: int = 0
    """Runs that failed to."""

    def __str__(self) -> str:
        return "@".join((str(self.after), self.requested.isoformat(), str(self.attempts), ",".join(self.tables)))


def read_owed(cursor: str | None) -> list[OwedBookings]:
    """What stands in a sensor's cursor, between its other words."""
    words = (word.split("@") for word in (cursor or "").split() if "@" in word)
    return [OwedBookings(tuple(one[3].split(",")), int(one[0]), datetime.fromisoformat(one[1]), int(one[2])) for one in words]


def without_owed(cursor: str | None) -> str:
    return " ".join(word for word in (cursor or "").split() if "@" not in word)


def waiting(owed: Sequence[OwedBookings]) -> str:
    """Tables whose booking has failed so far, as text for people; empty without any."""
    names = sorted({name for one in owed if one.attempts for name in one.tables})
    return f"; {', '.join(names)} wait to be booked" if names else ""


def settle(
    instance: dg.DagsterInstance, mount: Mount, owed: Sequence[OwedBookings], tables: Collection[str], now: datetime
) -> tuple[list[OwedBookings], list[dg.RunRequest]]:
    """What is still owed, and the runs to start: for the tables, and again where a run failed or none began."""
    if not owed and not tables:
        return [], []
    runs = instance.get_run_records(dg.RunsFilter(tags={OPERATION: "record", **mount.tags}), limit=_RUNS_SEEN)
    newest = max((run.storage_id for run in runs), default=0)
    followed = [_followed(instance, one, runs, newest, now) for one in owed]
    left = [one for one in followed if one is not None]
    fresh = [OwedBookings(tuple(sorted(tables)), newest, now)] if tables else []
    due = [one for one in left if one not in owed]
    return [*left, *fresh], [_request(one.tables) for one in (*due, *fresh)]


def _followed(
    instance: dg.DagsterInstance, one: OwedBookings, runs: Iterable[dg.RunRecord], newest: int, now: datetime
) -> OwedBookings | None:
    """None where a run has booked the tables; another value where it is requested again."""
    of_these = [run for run in runs if run.storage_id > one.after and _names(run.dagster_run, one.tables)]
    if any(_has_booked(instance, run.dagster_run) for run in of_these):
        return None
    ends = [_ended(run) for run in of_these]
    if any(not run.dagster_run.is_finished or awaits_retry(run.dagster_run, _ended(run), now) for run in of_these):
        return one
    if not ends:
        return one if now - one.requested < _SUBMITTED_WITHIN else replace(one, after=newest, requested=now)
    waits = wait_after(one.attempts) if one.attempts else timedelta()
    return one if now < max(ends) + waits else replace(one, after=newest, requested=now, attempts=one.attempts + 1)


def _names(run: dg.DagsterRun, tables: Collection[str]) -> bool:
    config = op_config(run)
    named = tables_in(config)
    return not config.get("user") and (not named or named.issuperset(tables))


def _has_booked(instance: dg.DagsterInstance, run: dg.DagsterRun) -> bool:
    """Whether the run booked all that can be read: one that failed for scopes which cannot has booked the others."""
    if run.status is dg.DagsterRunStatus.SUCCESS:
        return True
    codes = {code_of(failure) for failure in step_failures(instance, run.run_id)} if run.is_failure else set()
    return bool(codes) and codes.isdisjoint(_IN_VAIN)


def _ended(run: dg.RunRecord) -> datetime:
    return datetime.fromtimestamp(run.end_time, UTC) if run.end_time else run.update_timestamp.replace(tzinfo=UTC)


def _request(tables: Sequence[str]) -> dg.RunRequest:
    return dg.RunRequest(run_config={"ops": {"record": {"config": {"tables": list(tables)}}}})
