"""The cursors of sensors: bookings that were requested and that no run has done yet, and the users that were seen."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache

import dagster as dg

from lakewarden.catalog.model import Table
from lakewarden.dagster.jobs.runs import OPERATION, awaits_retry, code_of, ended_at, op_config, step_failures, tables_in
from lakewarden.dagster.mount import Mount
from lakewarden.dagster.orchestration.flushing import wait_after
from lakewarden.errors import Transient
from lakewarden.tables.warehouse import Warehouse

_SUBMITTED_WITHIN = timedelta(minutes=2)
"""A run that a tick requests is created as the tick ends."""

_RUNS_SEEN = 100

_IN_VAIN = {None, *(kind.code for kind in Transient.__subclasses__())}
"""Codes of failures behind which the same may succeed. None: not a failure of Lakewarden's; Dagster's storage was locked."""


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
    ends = [ended_at(run) for run in of_these]
    if any(not run.dagster_run.is_finished or awaits_retry(run.dagster_run, ended_at(run), now) for run in of_these):
        return one
    if not ends:  # the daemon has yet to submit the run, or lost the request
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


def _request(tables: Sequence[str]) -> dg.RunRequest:
    return dg.RunRequest(run_config={"ops": {"record": {"config": {"tables": list(tables)}}}})


# Which users came to a table since a sensor's last tick: what a tick costs depends on them, and not on the users there are.
#
# The cursor has the version of each table's registry. Which objects that version had, this process remembers; after a restart
# the users are compared once.

_TABLES = 4096
"""Tables of which a process remembers the objects."""


@dataclass(frozen=True)
class RegistryLook:
    """A table's registry as of a tick. A table with one scope has no version."""

    table_id: str
    version: str = ""
    users: int = 0


@dataclass(frozen=True)
class Came:
    """The users who came since the cursor; all, where it cannot be said who did."""

    seen: RegistryLook
    users: frozenset[str] = frozenset()


def read_cursor(text: str | None) -> dict[str, RegistryLook]:
    """Returns what a cursor says, by table id. One of an earlier release has ids alone."""
    parts = (said.split(":") for said in (text or "").split())
    return {part[0]: RegistryLook(part[0], part[1], int(part[2])) if len(part) == 3 else RegistryLook(part[0]) for part in parts}


def write_cursor(seen: Iterable[RegistryLook]) -> str:
    return " ".join(f"{one.table_id}:{one.version}:{one.users}" for one in seen)


def newcomers(warehouse: Warehouse, table: Table, before: RegistryLook | None) -> Came:
    """Compares a table's registry with what a tick saw before."""
    if table.type == "SHARED":
        return Came(RegistryLook(table.id))
    version = warehouse.registry.version(table.id)
    if before is not None and before.version == version:
        return Came(before)
    memory = _memory(warehouse.state.uri, table.id)
    remembers = before is not None and before.version == memory.version
    added = warehouse.registry.added(table.id, memory.objects) if remembers else None
    added = added or warehouse.registry.everything(table.id)
    memory.version, memory.objects = version, added.objects
    users = before.users + len(added.users) if before is not None and added.counted is None else added.counted
    return Came(RegistryLook(table.id, version, users or 0), added.users)


@dataclass
class _Memory:
    """The objects that a table's registry had in one version."""

    state_uri: str
    table_id: str
    version: str = ""
    objects: frozenset[str] = frozenset()


_memory = lru_cache(maxsize=_TABLES)(_Memory)
