"""Books what a run did in Dagster: one event for each scope, and one failure for all failed scopes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import groupby

import dagster as dg

from assets.metadata import HISTORY_ENTRIES, NO_BACKLOG, Backlog, crowd_metadata, scope_metadata
from assets.tables import MAX_PARTITIONS, asset_key, is_crowded, partitions_name
from jobs.batches import log_events
from jobs.failures import raise_failures, scopes_table
from lakewarden.delta.history import HistoryEntry, entries_of
from lakewarden.delta.table import ScopeTable
from lakewarden.lakehouse import Lakehouse
from lakewarden.report import ScopeReport
from lakewarden.scope import Scope, TableName

HISTORY_SCOPES = 2_000
"""Scopes of a run up to which every event carries the history of its last commits: two milliseconds a scope to read it, one
to store it, and four kilobytes in Dagster's database, permanently. The flush sensor's runs stay below (SCOPES_PER_RUN). Larger
runs, manual or scheduled, omit it; the scope's next event, or `record_job`, adds it again."""

_THREADS = 8

_SKIPS_SHOWN = 100


@dataclass(frozen=True)
class Booked:
    """The content of a scope's event: what was done to it, its last commits, newest first, and what is pending in the log."""

    report: ScopeReport
    history: Sequence[HistoryEntry] = ()
    backlog: Backlog = NO_BACKLOG

    @property
    def table(self) -> TableName:
        return self.report.scope.table


def book(
    context: dg.OpExecutionContext, lake: Lakehouse, reports: Sequence[ScopeReport], max_partitions: int = MAX_PARTITIONS
) -> None:
    """Books what was done or planned for each scope, then fails if any scope failed.

    A skipped scope gets no event: the run's own metadata counts it, with its reason. A table of more than
    `max_partitions` users gets one event for all of its scopes, with the worst of them.

    Raises:
        dagster.Failure: some scopes failed; it names them. Retries are allowed if any failure may be transient.
    """
    all_reports = [report for report in reports if report.outcome in ("done", "planned")]
    crowded = crowded_tables(lake, {report.scope.table for report in all_reports}, max_partitions)
    single = [report for report in all_reports if report.scope.table not in crowded]
    register_users(context.instance, [report.scope for report in single])
    backlogs = backlog_of(lake)
    book_events(context, (replace(one, backlog=backlogs.get(one.report.scope, NO_BACKLOG)) for one in with_histories(single)))
    for table in sorted(crowded):
        of_table = [report for report in all_reports if report.scope.table == table]
        log_events(context, [_crowd_event(table, of_table, backlogs)])
    context.add_output_metadata(summary(reports))
    raise_failures(reports)


def book_events(context: dg.OpExecutionContext, booked: Iterable[Booked]) -> None:
    """Logs one event for each scope, table by table."""
    for _, of_table in groupby(sorted(booked, key=lambda one: one.table), key=lambda one: one.table):
        log_events(context, [_event(one) for one in of_table])


def crowded_tables(lake: Lakehouse, names: Iterable[TableName], max_partitions: int = MAX_PARTITIONS) -> frozenset[TableName]:
    """The tables that have too many users for partitions."""
    tables = lake.warehouse.catalog.read().tables
    there = (name for name in names if name in tables)  # a table may be dropped while an operation works on its scopes
    return frozenset(name for name in there if is_crowded(lake.warehouse, tables[name], max_partitions))


def _crowd_event(
    table: TableName, reports: Sequence[ScopeReport], backlogs: Mapping[Scope, Backlog]
) -> dg.AssetMaterialization | dg.AssetObservation:
    kind = _kind(reports[0])
    what = f"{reports[0].operation}: {len(reports)} scopes {reports[0].outcome}"
    return kind(asset_key(table), description=what, metadata={**summary(reports), **crowd_metadata(reports, backlogs)})


def _kind(report: ScopeReport) -> type[dg.AssetMaterialization] | type[dg.AssetObservation]:
    """A change of the scope is a materialization; a dry run is an observation."""
    return dg.AssetMaterialization if report.outcome == "done" else dg.AssetObservation


def _event(booked: Booked) -> dg.AssetMaterialization | dg.AssetObservation:
    report = booked.report
    return _kind(report)(
        asset_key(report.scope.table),
        partition=report.scope.user,
        description=f"{report.operation}: {report.outcome}" + (f", {report.reason}" if report.reason else ""),
        metadata=scope_metadata(report, booked.history, booked.backlog),
    )


def with_histories(reports: Sequence[ScopeReport]) -> list[Booked]:
    """The reports with the last commits of their scopes, unless the run is too large for that."""
    if len(reports) > HISTORY_SCOPES:
        return [Booked(report) for report in reports]
    with ThreadPoolExecutor(_THREADS) as pool:  # reading a log mostly waits for the store
        return list(pool.map(_with_history, reports))


def _with_history(report: ScopeReport) -> Booked:
    table = None if report.version is None else ScopeTable.open(report.location)
    return Booked(report, [] if table is None else entries_of(table, HISTORY_ENTRIES))


def backlog_of(lake: Lakehouse) -> dict[Scope, Backlog]:
    """The scopes that have hot rows now, from one view of the log."""
    return {one.scope: Backlog(one.rows, one.bytes) for one in lake.pending()}


def register_users(instance: dg.DagsterInstance, scopes: Iterable[Scope]) -> None:
    """Adds every scope's missing partition, in one statement for each table: Dagster checks keys one by one."""
    users: dict[TableName, list[str]] = {}
    for scope in scopes:
        if scope.user is not None:
            users.setdefault(scope.table, []).append(scope.user)
    for table, names in users.items():
        instance.add_dynamic_partitions(partitions_name(table), names)


def summary(reports: Sequence[ScopeReport]) -> dict[str, dg.MetadataValue]:
    """The totals of the run: scopes by outcome, sums of metrics, and the reasons of skipped scopes."""
    outcomes = Counter(report.outcome for report in reports)
    metrics: Counter[str] = Counter()
    for report in reports:
        metrics.update(report.metrics)
    skipped = [report for report in reports if report.outcome == "skipped"]
    plans = sorted({report.plan_id for report in reports if report.plan_id})
    return {
        **({"plan_id": dg.MetadataValue.text(", ".join(plans))} if plans else {}),
        **{f"scopes/{outcome}": dg.MetadataValue.int(count) for outcome, count in sorted(outcomes.items())},
        **{f"metrics/{name}": dg.MetadataValue.int(value) for name, value in sorted(metrics.items())},
        **({"skipped": scopes_table(skipped[:_SKIPS_SHOWN], lambda report: report.reason)} if skipped else {}),
    }
