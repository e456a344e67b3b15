"""The users who are partitions: those who have a scope, and no others."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import dagster as dg

from lakewarden.base.scope import Scope, TableName
from lakewarden.catalog.model import Table
from lakewarden.catalog.report import Fault, ScopeReport
from lakewarden.client import Lakehouse
from lakewarden.dagster.assets.partition_values import is_key
from lakewarden.dagster.internals.events import AssetMaterializationPlannedData
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
    partitions = instance.get_dynamic_partitions(mount.dotted(table.name))  # before the users: one who comes now is none
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
    """Whether the scope itself is broken: a request for the impossible, or a storage that is away, is no fault of its own."""
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
    for start in range(0, len(partitions), _PAGE):
        for partition in _failed(context, key, partitions[start : start + _PAGE])[:_MOST]:
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
