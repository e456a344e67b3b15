"""Books what a run did in Dagster: one event for each scope, and one failure for all failed scopes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

import dagster as dg

from lakewarden.base.scope import Scope, TableName
from lakewarden.catalog.report import ScopeReport
from lakewarden.client import Lakehouse
from lakewarden.dagster.assets.health_changes import book_health
from lakewarden.dagster.assets.links import link, repair_form
from lakewarden.dagster.assets.metadata import NO_BACKLOG, Backlog, Metadata, crowd_metadata
from lakewarden.dagster.assets.partition_values import is_key
from lakewarden.dagster.assets.tables import MAX_PARTITIONS, is_crowded
from lakewarden.dagster.jobs.event_log.batches import AssetEvent, log_events
from lakewarden.dagster.jobs.event_log.behind import BookingRun, book_behind, named_tables
from lakewarden.dagster.jobs.event_log.events import ScopeEvent, backlog_of, book_events, event_kind, mark_failed, register_users
from lakewarden.dagster.jobs.event_log.histories import with_histories, with_values
from lakewarden.dagster.jobs.runs import attempts_before, named_by, raise_failures, scopes_table
from lakewarden.dagster.lakehouse import WarehouseRun
from lakewarden.dagster.mount import Mount
from lakewarden.maintenance.check.memory import BROKEN

_SKIPS_SHOWN = 100

_BROKEN_SHOWN = 20


def book(
    run: WarehouseRun, reports: Sequence[ScopeReport], max_partitions: int = MAX_PARTITIONS, *, preview: bool = False
) -> None:
    """Books what was done or planned for each scope, then fails if any scope failed.

    A skipped scope gets no event: the run's own metadata counts it, with its reason. A table of more than
    `max_partitions` users gets one event for all of its scopes, with the worst of them. A run that takes the place of one
    whose process died also books what that one had committed, and a step that is tried again what its first attempt had.

    Args:
        preview: nothing was to change, so what failed is not a fault of a scope's.

    Raises:
        dagster.Failure: some scopes failed; it names them. Retries are allowed if any failure may be transient.
    """
    context, lake, mount = run.context, run.lake, run.mount
    all_reports = [report for report in reports if report.outcome in ("done", "planned")]
    crowded = crowded_tables(lake, {report.scope.table for report in reports}, max_partitions)
    single = [report for report in all_reports if report.scope.table not in crowded]
    if lost := attempts_before(context):
        own = frozenset((report.scope, report.version) for report in all_reports)
        named = named_tables(lake, named_by(run))
        book_behind(run, named, by=BookingRun(others=own, lost=lost))
    register_users(context.instance, mount, [report.scope for report in single])
    backlogs = backlog_of(lake)
    booked = [ScopeEvent(report, backlog=backlogs.get(report.scope, NO_BACKLOG)) for report in single]
    book_events(context, mount, with_values(run, with_histories(context.instance, mount, booked)))
    for table in sorted(crowded):
        of_table = [report for report in all_reports if report.scope.table == table]
        if of_table:
            log_events(context, [_crowd_event(mount.asset_key(table), of_table, backlogs)])
    broken = [] if preview else [report for report in reports if report.fault and report.fault.code in BROKEN]
    changed = [*(report for report in reports if report.outcome == "done"), *broken]
    book_health(run, {report.scope.table for report in changed}, failed=bool(broken))
    context.add_output_metadata(summary(reports))
    if not preview:
        mark_failed(context, lake, mount, [report for report in reports if report.scope.table not in crowded])
        _book_broken(context, mount, [report for report in broken if report.scope.table not in crowded])
    raise_failures(reports)


def _book_broken(context: dg.OpExecutionContext, mount: Mount, reports: Sequence[ScopeReport]) -> None:
    """On the page of each scope that was found broken stands why, with the form that shows what a repair would do."""
    shown = ((one, one.fault) for one in reports if one.fault and is_key(one.scope.user or ""))
    for report, fault in islice(shown, _BROKEN_SHOWN):
        context.log_event(
            dg.AssetObservation(
                mount.asset_key(report.scope.table),
                partition=report.scope.user,
                description=f"{report.operation}: {fault.code}, {fault.message}",
                metadata={
                    "code": fault.code,
                    "reason": fault.message,
                    "repair": link("what a repair would do", repair_form(mount, report.scope)),
                },
            )
        )


def crowded_tables(lake: Lakehouse, names: Iterable[TableName], max_partitions: int = MAX_PARTITIONS) -> frozenset[TableName]:
    """The tables that have too many users for partitions."""
    tables = lake.warehouse.catalog.read().tables
    there = (name for name in names if name in tables)  # a table may be dropped while an operation works on its scopes
    return frozenset(name for name in there if is_crowded(lake.warehouse, tables[name], max_partitions))


def _crowd_event(key: dg.AssetKey, reports: Sequence[ScopeReport], backlogs: Mapping[Scope, Backlog]) -> AssetEvent:
    kind = event_kind(reports[0])
    what = f"{reports[0].operation}: {len(reports)} scopes {reports[0].outcome}"
    return kind(key, description=what, metadata={**summary(reports), **crowd_metadata(reports, backlogs)})


def summary(reports: Sequence[ScopeReport]) -> Metadata:
    """The totals of the run: scopes by outcome, sums of metrics, and the reasons of skipped scopes."""
    outcomes = Counter(report.outcome for report in reports)
    metrics: Counter[str] = Counter()
    for report in reports:
        metrics.update(report.metrics)
    skipped = [report for report in reports if report.outcome == "skipped"]
    plans = sorted({report.plan_id for report in reports if report.plan_id})
    return {
        **({"plan_id": ", ".join(plans)} if plans else {}),
        **{f"scopes/{outcome}": count for outcome, count in sorted(outcomes.items())},
        **{f"metrics/{name}": value for name, value in sorted(metrics.items())},
        **({"skipped": scopes_table(skipped[:_SKIPS_SHOWN], lambda report: report.reason)} if skipped else {}),
    }
