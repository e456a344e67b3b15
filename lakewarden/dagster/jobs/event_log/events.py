"""Events of scopes: what each has, and how a run stores many of them; and the users who are partitions: those with a scope."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

import dagster as dg

from lakewarden.base.quantities import portions
from lakewarden.base.scope import Scope, TableName
from lakewarden.catalog.model import Table
from lakewarden.catalog.report import Fault, ScopeReport
from lakewarden.client import Lakehouse
from lakewarden.dagster.assets.links import link, optimize_form, restore_form
from lakewarden.dagster.assets.metadata import (
    HISTORY,
    NO_BACKLOG,
    UNCHANGED_AT,
    VERSION,
    Backlog,
    CommitLine,
    Metadata,
    history_text,
    partition_metadata,
    scope_metadata,
)
from lakewarden.dagster.assets.partition_values import PartitionState, is_key
from lakewarden.dagster.internals import AssetMaterializationPlannedData
from lakewarden.dagster.jobs.event_log.batches import AssetEvent, log_events
from lakewarden.dagster.mount import Mount


def register_users(instance: dg.DagsterInstance, mount: Mount, scopes: Iterable[Scope]) -> None:
    """Adds every scope's missing partition, in one statement for each table: Dagster checks keys one by one."""
    for table, names in _users(scopes).items():
        instance.add_dynamic_partitions(mount.dotted(table), names)


def existing(lake: Lakehouse, scopes: Collection[Scope]) -> frozenset[Scope]:
    """The scopes that there are: those of registered users, and those with rows in the log. People name others in forms."""
    if not scopes:
        return frozenset()
    tables = lake.warehouse.catalog.read().tables
    found = {one.scope for one in lake.pending()}
    for table, users in _users(scopes).items():
        if table in tables:
            found |= {Scope(table, user) for user in lake.warehouse.registry.known(tables[table].id, users)}
    return frozenset(scope for scope in scopes if scope.user is None or scope in found)


def strangers(instance: dg.DagsterInstance, mount: Mount, lake: Lakehouse, table: Table) -> list[str]:
    """Partitions of a USER table that stand for no user of it."""
    if table.type != "USER":
        return []
    partitions = instance.get_dynamic_partitions(
        mount.dotted(table.name)
    )  # before the users: one who comes now has no partition yet
    scopes = existing(lake, [Scope(table.name, user) for user in partitions])
    return [user for user in partitions if Scope(table.name, user) not in scopes]


def _users(scopes: Iterable[Scope]) -> dict[TableName, list[str]]:
    found: dict[TableName, list[str]] = {}
    for scope in scopes:
        if scope.user is not None and is_key(scope.user):
            found.setdefault(scope.table, []).append(scope.user)
    return found


# Turns the partitions red of scopes that are broken, and clears what stands on their pages once they are well.
#
# Dagster calls a partition failed if a run planned to materialize it, has not, and failed. A run of a job plans none, so this
# adds the plan for the scopes that failed, in the run that is about to. The scope's next event turns its partition green again;
# the partition's page says that the run failed until another run has planned the partition, so the next one plans it, too. The
# call is not public, so it is isolated here, and a test fails when Dagster changes it.

_MOST = 100
"""Each costs an event by itself; with more failed scopes than this, the fault is hardly theirs."""
_PAGE = 500

_OF_OTHERS = frozenset(
    {"SYNTAX_ERROR", "INVALID_ARGUMENT", "ALREADY_EXISTS", "NOT_FOUND", "PERMISSION_DENIED", "FAILED_PRECONDITION", "UNSUPPORTED"}
    | {"CONFLICT"}
)
"""Codes that say what is wrong with a request or its moment: a race, an outdated plan, a vacuum that a red check blocks."""

_IN_VAIN = [dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]


def is_of_the_scope(fault: Fault) -> bool:
    """Whether the scope itself is broken: a request for the impossible, or a storage that is away, is not a fault of its own."""
    return fault.code not in _OF_OTHERS and not fault.transient


def mark_failed(context: dg.OpExecutionContext, lake: Lakehouse, mount: Mount, reports: Sequence[ScopeReport]) -> None:
    """Call this before the failure is raised."""
    broken = [report.scope for report in reports if report.fault and is_of_the_scope(report.fault)]
    broken = [scope for scope in broken if is_key(scope.user or "")][:_MOST]
    there = existing(lake, broken)
    register_users(context.instance, mount, there)
    for scope in broken:
        if scope in there:
            _plan(context, mount.asset_key(scope.table), scope.user)


def clear_failures(context: dg.OpExecutionContext, key: dg.AssetKey, partitions: Sequence[str]) -> None:
    """Takes from the pages of partitions that a run failed. Call this before the events of the partitions are logged."""
    for page in portions(partitions, lambda _: 1, _PAGE):
        for partition in _failed(context, key, page)[:_MOST]:
            _plan(context, key, partition)


def _failed(context: dg.OpExecutionContext, key: dg.AssetKey, partitions: Sequence[str]) -> list[str]:
    """Those whose newest plan is of another run, which failed. Runs of jobs plan none, so there are few plans to look at."""
    planned = dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED
    newest = context.instance.event_log_storage.get_latest_storage_id_by_partition(key, planned, set(partitions))
    if not newest:
        return []
    wanted = dg.EventRecordsFilter(planned, asset_key=key, storage_ids=list(newest.values()))
    plans = context.instance.event_log_storage.get_event_records(wanted, limit=_PAGE)
    runs = {one.partition_key: one.run_id for one in plans}
    in_vain = {run.run_id for run in context.instance.get_runs(dg.RunsFilter(run_ids=[*set(runs.values())], statuses=_IN_VAIN))}
    return [partition for partition, run_id in runs.items() if partition and run_id in in_vain]


def _plan(context: dg.OpExecutionContext, key: dg.AssetKey, partition: str | None) -> None:
    planned = AssetMaterializationPlannedData(key, partition=partition)
    event = dg.DagsterEvent.build_asset_materialization_planned_event(context.job_name, str(context.op_handle), planned)
    context.instance.report_dagster_event(event, context.run_id)


@dataclass(frozen=True)
class PartitionEvent:
    """A partition of a large table that an operation touched."""

    key: str
    state: PartitionState | None
    """What is in it; None where later commits may have changed that."""


@dataclass(frozen=True)
class ScopeEvent:
    """The content of a scope's event: what was done to it, its newest commits, and what is pending in the log."""

    report: ScopeReport
    history: Sequence[CommitLine] = ()
    """Newest first (`histories`)."""
    backlog: Backlog = NO_BACKLOG
    job_id: str = ""
    """Of the job that made the commit, where that was read from the table."""
    of_commit: bool = True
    """Whether the event stands for the commit of its version. Each commit has one such event."""
    touched: Sequence[PartitionEvent] = ()
    """Each has an event of its own, before that of the table."""

    @property
    def table(self) -> TableName:
        return self.report.scope.table


def book_events(context: dg.OpExecutionContext, mount: Mount, booked: Iterable[ScopeEvent]) -> None:
    """Logs one event for each scope, table by table; none for a user who is not a partition, and the run's log says so."""
    for table, of_table in groupby(sorted(booked, key=lambda one: one.table), key=lambda one: one.table):
        every = list(of_table)
        scopes = [one.report.scope for one in every if not is_key(one.report.scope.user or "")]
        for scope in scopes:
            context.log.warning("%s: %r has no page, since Dagster takes no partition with U+0000", scope.table, scope.user)
        events = list[AssetEvent]()
        for one in (one for one in every if one.report.scope not in scopes):
            events += [*(partition_event(mount, one, touched) for touched in one.touched), _event(mount, one)]
        done = {event.partition for event in events if isinstance(event, dg.AssetMaterialization)}
        clear_failures(context, mount.asset_key(table), sorted(filter(None, done)))
        log_events(context, events)


def event_kind(report: ScopeReport) -> type[dg.AssetMaterialization] | type[dg.AssetObservation]:
    """A change of the scope is a materialization; a dry run is an observation."""
    return dg.AssetMaterialization if report.outcome == "done" else dg.AssetObservation


def partition_event(mount: Mount, booked: ScopeEvent, touched: PartitionEvent) -> AssetEvent:
    """What was done, as an event of one partition of a large table."""
    report = booked.report
    found = partition_metadata(report, touched.key, touched.state)
    return event_kind(report)(
        mount.asset_key(report.scope.table),
        partition=touched.key,
        description=_description(report),
        metadata={
            **(found if booked.of_commit else _unchanged(found)),
            **_history(booked),
            "optimize": link("this partition", optimize_form(mount, report.scope.table, touched.key)),
        },
    )


def _description(report: ScopeReport) -> str:
    return f"{report.operation}: {report.outcome}" + (f", {report.reason}" if report.reason else "")


def _event(mount: Mount, booked: ScopeEvent) -> AssetEvent:
    report = booked.report
    found = {**scope_metadata(report, booked.backlog), **_history(booked)}
    return event_kind(report)(
        mount.asset_key(report.scope.table),
        partition=report.scope.user,
        description=_description(report),
        metadata={**(found if booked.of_commit else _unchanged(found)), **_restore_link(mount, report)},
    )


def _history(booked: ScopeEvent) -> Metadata:
    return {HISTORY: history_text(booked.history)} if booked.history else {}


def _unchanged(found: Metadata) -> Metadata:
    """The same, its version as one that was found."""
    return {UNCHANGED_AT if name == VERSION else name: value for name, value in found.items()}


def _restore_link(mount: Mount, report: ScopeReport) -> dict[str, dg.MetadataValue]:
    if report.outcome != "done" or report.version is None:
        return {}
    return {"restore": link("list all versions, or restore one", restore_form(mount, report.scope))}


def backlog_of(lake: Lakehouse) -> dict[Scope, Backlog]:
    """The scopes that have hot rows now, from one view of the log."""
    return {one.scope: Backlog(one.rows, one.bytes) for one in lake.pending()}
