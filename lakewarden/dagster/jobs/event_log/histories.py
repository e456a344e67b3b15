"""The histories of scopes, for their next events: from the event before, with what was committed since.

No table is opened. A commit that no event shows, since another program made it, is read by its name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

import dagster as dg

from lakewarden.base.connection import Location
from lakewarden.base.scope import Scope, TableName
from lakewarden.base.threads import at_once
from lakewarden.catalog.model import Catalog
from lakewarden.catalog.operations import Operation
from lakewarden.catalog.report import ScopeReport
from lakewarden.catalog.target import ScopeTarget
from lakewarden.client import Lakehouse
from lakewarden.dagster.assets.metadata import (
    SHOWN,
    Backlog,
    CommitLine,
    job_id_of,
    line_of_entry,
    line_of_report,
    lines_in,
    operation_of,
)
from lakewarden.dagster.jobs.event_log.events import ScopeEvent, backlog_of
from lakewarden.dagster.mount import Mount
from lakewarden.delta.reading.history import HistoryEntry, entries_below
from lakewarden.delta.table import ScopeTable
from lakewarden.errors import LakewardenError

_PAGE = 500
_LOOKED_BACK = 20
"""Events of a table among which one with a history is searched: certificates of erasures have none. Those of a large table's
partitions show the history of the whole."""


def with_histories(instance: dg.DagsterInstance, mount: Mount, every: Sequence[ScopeEvent]) -> list[ScopeEvent]:
    """The same, each with the newest commits of its scope up to its version."""
    shown = _shown_before(instance, mount, [one.report.scope for one in every if one.report.version is not None])
    return at_once(partial(_with_history, shown), every)  # those that another program committed to are read


def _with_history(shown: Mapping[Scope, Sequence[CommitLine]], booked: ScopeEvent) -> ScopeEvent:
    report = booked.report
    if report.version is None:
        return booked
    own = line_of_report(report) if booked.of_commit else None
    return replace(booked, history=newest_lines(report.location, report.version, own, shown.get(report.scope, ())))


def newest_lines(location: Location, version: int, own: CommitLine | None, before: Sequence[CommitLine]) -> list[CommitLine]:
    """The newest commits up to a version, newest first.

    Args:
        own: the line of that version, where the operation committed it.
        before: what the event before shows; of no use where its newest commit is not older: the table was started again since.
    """
    made, below = ([], version + 1) if own is None else ([own], version)
    known = [line for line in before if line.version < below] if before and before[0].version <= version else []
    missing = min(below - 1 - (known[0].version if known else -1), SHOWN - len(made))
    return [*made, *_read(location, below, missing), *known][:SHOWN]


def _read(location: Location, below: int, count: int) -> list[CommitLine]:
    """A commit that cannot be read is no reason to book nothing: the page then shows what is known without it."""
    with suppress(LakewardenError):
        return [line_of_entry(entry) for entry in entries_below(location, below, count)] if count > 0 else []
    return []


def _shown_before(instance: dg.DagsterInstance, mount: Mount, scopes: Sequence[Scope]) -> dict[Scope, list[CommitLine]]:
    """What the newest event of each scope shows."""
    found: dict[Scope, list[CommitLine]] = {}
    for table in {scope.table for scope in scopes}:
        users = [scope.user for scope in scopes if scope.table == table and scope.user is not None]
        found |= _of_users(instance, mount, table, users) if users else _of_whole(instance, mount, table)
    return found


def _of_users(
    instance: dg.DagsterInstance, mount: Mount, table: TableName, users: Sequence[str]
) -> dict[Scope, list[CommitLine]]:
    key, found = mount.asset_key(table), dict[Scope, list[CommitLine]]()
    for start in range(0, len(users), _PAGE):
        newest = instance.event_log_storage.get_latest_storage_id_by_partition(
            key, dg.DagsterEventType.ASSET_MATERIALIZATION, set(users[start : start + _PAGE])
        )
        if newest:
            of_page = dg.AssetRecordsFilter(key, storage_ids=list(newest.values()))
            records = instance.fetch_materializations(of_page, limit=_PAGE).records
            found |= {Scope(table, one.partition_key): lines_in(event) for one in records if (event := one.asset_materialization)}
    return found


def _of_whole(instance: dg.DagsterInstance, mount: Mount, table: TableName) -> dict[Scope, list[CommitLine]]:
    for record in instance.fetch_materializations(mount.asset_key(table), limit=_LOOKED_BACK).records:
        if (event := record.asset_materialization) and (lines := lines_in(event)):
            return {Scope(table): lines}
    return {}


# A scope's newest commit as a report, for events of what this process did not do itself.
@dataclass(frozen=True)
class Now:
    """What does not change while scopes are looked at."""

    lake: Lakehouse
    catalog: Catalog
    backlogs: Mapping[Scope, Backlog]


def look(lake: Lakehouse) -> Now:
    return Now(lake, lake.warehouse.catalog.read(), backlog_of(lake))


def booked_commit(target: ScopeTarget, commit: HistoryEntry, table: ScopeTable | None = None) -> ScopeEvent:
    """A commit of the scope as an event, whoever made it; with the state of the `table` that it left, if that is given."""
    report = ScopeReport(
        scope=target.scope,
        operation=cast("Operation", operation_of(commit)),  # a foreign commit has its own word: it is only shown
        outcome="done",
        location=target.location,
        reason="booked afterwards",
        version=commit.version,
        parameters=dict(commit.parameters),
        metrics={name: value for name, value in commit.operation_metrics.items() if isinstance(value, int)},
        state=table.state(target.app_id) if table else None,
        finished_at=commit.timestamp,
    )
    return ScopeEvent(report, job_id=job_id_of(commit))
