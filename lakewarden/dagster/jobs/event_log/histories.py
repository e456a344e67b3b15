"""The histories of scopes, for their next events: from the event before, with what was committed since.

No table is opened. A commit that no event shows, since another program made it, is read by its name.

And which partitions of a large table an operation touched.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

import dagster as dg

from lakewarden.base.connection import Location
from lakewarden.base.quantities import portions
from lakewarden.base.scope import Scope, TableName
from lakewarden.base.threads import at_once
from lakewarden.catalog.model import Catalog, Table
from lakewarden.catalog.operations import Operation
from lakewarden.catalog.report import ScopeReport
from lakewarden.catalog.target import ScopeTarget
from lakewarden.client import Lakehouse
from lakewarden.dagster.assets.metadata import (
    NO_BACKLOG,
    SHOWN,
    Backlog,
    CommitLine,
    job_id_of,
    line_of_entry,
    line_of_report,
    lines_in,
    operation_of,
)
from lakewarden.dagster.assets.partition_values import MAX_VALUES, PartitionState, has_values, key_of, states_of
from lakewarden.dagster.jobs.event_log.batches import log_events
from lakewarden.dagster.jobs.event_log.events import (
    PartitionEvent,
    ScopeEvent,
    backlog_of,
    book_events,
    existing,
    partition_event,
    register_users,
)
from lakewarden.dagster.lakehouse import WarehouseRun
from lakewarden.dagster.mount import Mount
from lakewarden.delta.commit_log.commits import CommitLog
from lakewarden.delta.reading.history import HistoryEntry, entries_below
from lakewarden.delta.scope import open_scope
from lakewarden.delta.table import ScopeTable
from lakewarden.errors import LakewardenError
from lakewarden.storage.objects import Missing
from lakewarden.storage.open import open_store

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
    newest = newest_events(instance, mount.asset_key(table), users)
    return {Scope(table, one.partition_key): lines_in(event) for one in newest if (event := one.asset_materialization)}


def newest_events(instance: dg.DagsterInstance, key: dg.AssetKey, users: Collection[str] | None) -> Iterator[dg.EventLogRecord]:
    """The newest event of each partition, or of the users' partitions."""
    pages = [None] if users is None else map(set, portions(users, lambda _: 1, _PAGE))
    kind, storage = dg.DagsterEventType.ASSET_MATERIALIZATION, instance.event_log_storage
    newest = [one for page in pages for one in storage.get_latest_storage_id_by_partition(key, kind, page).values()]
    for ids in portions(newest, lambda _: 1, _PAGE):
        yield from instance.fetch_materializations(dg.AssetRecordsFilter(key, storage_ids=ids), limit=_PAGE).records


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


# Books scopes that an operation was requested for and had nothing to do to: Dagster waits for an event of each of them.
NOTHING_PENDING = "nothing was pending"


def book_unchanged(run: WarehouseRun, scopes: Sequence[Scope], operation: Operation) -> None:
    """Books the scopes as they are: not the commits that made them so, which other runs book. A retry books none again.

    A partition without a scope, which somebody added to Dagster by hand, gets no event; `prune_job` removes it.
    """
    context, lake, mount = run.context, run.lake, run.mount
    there = existing(lake, scopes)
    if strangers := [str(scope) for scope in scopes if scope not in there]:
        context.log.warning("no such scope: %s", ", ".join(strangers))
    ours = _booked_by(context) if context.retry_number else []
    before = {Scope(table, event.partition) for event in ours if (table := mount.table_of(event.asset_key))}
    now = look(lake)
    booked = at_once(partial(_unchanged, now, operation), [scope for scope in scopes if scope in there - before])
    register_users(context.instance, mount, [one.report.scope for one in booked])
    book_events(context, mount, with_histories(context.instance, mount, booked))


def _unchanged(now: Now, operation: Operation, scope: Scope) -> ScopeEvent:
    target = now.lake.warehouse.target(now.catalog, scope)
    report = ScopeReport(scope, operation, "done", target.location, reason=NOTHING_PENDING)
    table = open_scope(target)
    if table is not None:
        known = booked_commit(target, entries_below(table.location, table.version + 1, 1)[0], table).report
        report = replace(report, version=known.version, state=known.state, finished_at=known.finished_at)
    return ScopeEvent(report, backlog=now.backlogs.get(scope, NO_BACKLOG), of_commit=False)


def _booked_by(context: dg.OpExecutionContext) -> list[dg.AssetMaterialization]:
    """The events of changes that this run has booked."""
    records = context.instance.get_records_for_run(context.run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION).records
    return [event for record in records if (event := record.asset_materialization)]


def with_values(run: WarehouseRun, booked: Iterable[ScopeEvent]) -> list[ScopeEvent]:
    """The same, those of large tables with the partitions that they touched, which are registered.

    A table of more than `MAX_VALUES` partitions gets none. One of which none is registered yet gets all, by its newest commit.
    """
    every = list(booked)
    tables = run.lake.warehouse.catalog.read().tables
    for name in {one.table for one in every}:
        if name in tables and has_values(tables[name]):
            every = _of_table(run, tables[name], every)
    return every


def _of_table(run: WarehouseRun, table: Table, every: Sequence[ScopeEvent]) -> list[ScopeEvent]:
    opened = open_scope(_target(run.lake, table))
    states = states_of(opened)
    if opened is None or len(states) > MAX_VALUES:
        return list(every)
    name, instance = run.mount.dotted(table.name), run.context.instance
    fresh = not instance.get_dynamic_partitions(name)

    def marked(one: ScopeEvent) -> ScopeEvent:
        newest = one.report.version in (None, opened.version)
        keys = _touched(one.report, table) | (set(states) if fresh and newest else set())
        return replace(
            one, touched=tuple(PartitionEvent(key, states.get(key, _EMPTY) if newest else None) for key in sorted(keys))
        )

    found = [marked(one) if one.table == table.name else one for one in every]
    if keys := {touched.key for one in found if one.table == table.name for touched in one.touched}:
        instance.add_dynamic_partitions(name, sorted(keys))
    return found


_EMPTY = PartitionState(0, 0, 0)


def _touched(report: ScopeReport, table: Table) -> set[str]:
    """The partitions by their keys: a commit says them; a vacuum and a plan by their files."""
    if report.outcome == "planned" or report.operation == "vacuum":
        first = f"{table.schema.partition_by[0]}="
        return {folder for path in report.files if (folder := path.rpartition("/")[0]).startswith(first)}
    if report.version is None:
        return set()
    with suppress(Missing):  # an old commit leaves the log
        changed = CommitLog(open_store(report.location)).changed(report.version, table.schema.partition_by)
        return {key_of(partition) for partition in changed}
    return set()


def book_selected(run: WarehouseRun, table: Table) -> None:
    """Books the run's partitions that it did not change: Dagster waits for an event of each of them."""
    context, mount = run.context, run.mount
    selected = context.partition_keys if context.has_partitions else ()
    booked = {event.partition for event in _booked_by(context)}
    left = [key for key in selected if key not in booked]
    if not left:
        return
    target = _target(run.lake, table)
    opened = open_scope(target)
    states = states_of(opened)
    version = opened.version if opened else None
    report = ScopeReport(target.scope, "flush", "done", target.location, reason=NOTHING_PENDING, version=version)
    (unchanged,) = with_histories(context.instance, mount, [ScopeEvent(report, of_commit=False)])
    log_events(context, [partition_event(mount, unchanged, PartitionEvent(key, states.get(key, _EMPTY))) for key in left])


def _target(lake: Lakehouse, table: Table) -> ScopeTarget:
    return lake.warehouse.target(lake.warehouse.catalog.read(), Scope(table.name))
