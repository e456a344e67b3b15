"""Which partitions of a large table an operation touched, and the events that say so."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

import dagster as dg

from lakewarden.base.scope import Scope
from lakewarden.base.threads import at_once
from lakewarden.catalog.model import Table
from lakewarden.catalog.operations import Operation
from lakewarden.catalog.report import ScopeReport
from lakewarden.catalog.target import ScopeTarget
from lakewarden.client import Lakehouse
from lakewarden.dagster.assets.metadata import NO_BACKLOG
from lakewarden.dagster.assets.partition_values import MAX_VALUES, PartitionState, has_values, key_of, states_of
from lakewarden.dagster.jobs.event_log.batches import log_events
from lakewarden.dagster.jobs.event_log.events import PartitionEvent, ScopeEvent, book_events, partition_event
from lakewarden.dagster.jobs.event_log.histories import Now, booked_commit, look, with_histories
from lakewarden.dagster.jobs.event_log.partitions import existing, register_users
from lakewarden.dagster.mount import Mount
from lakewarden.delta.commit_log.commits import CommitLog
from lakewarden.delta.reading.history import entries_of
from lakewarden.delta.scope import open_scope
from lakewarden.storage.objects import Missing
from lakewarden.storage.open import open_store

# Books scopes that an operation was requested for and had nothing to do to: Dagster waits for an event of each of them.
NOTHING_PENDING = "nothing was pending"


def book_unchanged(
    context: dg.OpExecutionContext, lake: Lakehouse, mount: Mount, scopes: Sequence[Scope], operation: Operation
) -> None:
    """Books the scopes as they are: not the commits that made them so, which other runs book. A retry books none again.

    A partition without a scope, which somebody added to Dagster by hand, gets no event; `prune_job` removes it.
    """
    there = existing(lake, scopes)
    if strangers := [str(scope) for scope in scopes if scope not in there]:
        context.log.warning("no such scope: %s", ", ".join(strangers))
    before = _booked_by(context, mount) if context.retry_number else frozenset[Scope]()
    now = look(lake)
    booked = at_once(partial(_unchanged, now, operation), [scope for scope in scopes if scope in there - before])
    register_users(context.instance, mount, [one.report.scope for one in booked])
    book_events(context, mount, with_histories(context.instance, mount, booked))


def _unchanged(now: Now, operation: Operation, scope: Scope) -> ScopeEvent:
    target = now.lake.warehouse.target(now.catalog, scope)
    report = ScopeReport(scope, operation, "done", target.location, reason=NOTHING_PENDING)
    table = open_scope(target)
    if table is not None:
        known = booked_commit(target, entries_of(table, 1)[0], table).report
        report = replace(report, version=known.version, state=known.state, finished_at=known.finished_at)
    return ScopeEvent(report, backlog=now.backlogs.get(scope, NO_BACKLOG), of_commit=False)


def _booked_by(context: dg.OpExecutionContext, mount: Mount) -> frozenset[Scope]:
    """The scopes of which this run has booked an event."""
    records = context.instance.get_records_for_run(context.run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION).records
    events = [record.asset_materialization for record in records]
    return frozenset(Scope(table, event.partition) for event in events if event and (table := mount.table_of(event.asset_key)))


def with_values(context: dg.OpExecutionContext, lake: Lakehouse, mount: Mount, booked: Iterable[ScopeEvent]) -> list[ScopeEvent]:
    """The same, those of large tables with the partitions that they touched, which are registered.

    A table of more than `MAX_VALUES` partitions gets none. One of which none is registered yet gets all, by its newest commit.
    """
    every = list(booked)
    tables = lake.warehouse.catalog.read().tables
    for name in {one.table for one in every}:
        if name in tables and has_values(tables[name]):
            every = _of_table(context, lake, mount, tables[name], every)
    return every


def _of_table(
    context: dg.OpExecutionContext, lake: Lakehouse, mount: Mount, table: Table, every: Sequence[ScopeEvent]
) -> list[ScopeEvent]:
    opened = open_scope(_target(lake, table))
    states = states_of(opened)
    if opened is None or len(states) > MAX_VALUES:
        return list(every)
    name = mount.dotted(table.name)
    fresh = not context.instance.get_dynamic_partitions(name)

    def marked(one: ScopeEvent) -> ScopeEvent:
        newest = one.report.version in (None, opened.version)
        keys = _touched(one.report, table) | (set(states) if fresh and newest else set())
        return replace(
            one, touched=tuple(PartitionEvent(key, states.get(key, _EMPTY) if newest else None) for key in sorted(keys))
        )

    found = [marked(one) if one.table == table.name else one for one in every]
    if keys := {touched.key for one in found if one.table == table.name for touched in one.touched}:
        context.instance.add_dynamic_partitions(name, sorted(keys))
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


def book_selected(context: dg.OpExecutionContext, lake: Lakehouse, mount: Mount, table: Table) -> None:
    """Books the run's partitions that it did not change: Dagster waits for an event of each of them."""
    selected = context.partition_keys if context.has_partitions else ()
    records = context.instance.get_records_for_run(context.run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION).records
    booked = {event.partition for record in records if (event := record.asset_materialization)}
    left = [key for key in selected if key not in booked]
    if not left:
        return
    target = _target(lake, table)
    opened = open_scope(target)
    states = states_of(opened)
    version = opened.version if opened else None
    report = ScopeReport(target.scope, "flush", "done", target.location, reason=NOTHING_PENDING, version=version)
    (unchanged,) = with_histories(context.instance, mount, [ScopeEvent(report, of_commit=False)])
    log_events(context, [partition_event(mount, unchanged, PartitionEvent(key, states.get(key, _EMPTY))) for key in left])


def _target(lake: Lakehouse, table: Table) -> ScopeTarget:
    return lake.warehouse.target(lake.warehouse.catalog.read(), Scope(table.name))
