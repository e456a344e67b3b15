"""Events of scopes: what each has, and how a run stores many of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

import dagster as dg

from lakewarden.base.scope import Scope, TableName
from lakewarden.catalog.report import ScopeReport
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
from lakewarden.dagster.jobs.event_log.batches import AssetEvent, log_events
from lakewarden.dagster.jobs.event_log.partitions import clear_failures
from lakewarden.dagster.mount import Mount


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
    """Logs one event for each scope, table by table; none for a user who is no partition, and the run's log says so."""
    for table, of_table in groupby(sorted(booked, key=lambda one: one.table), key=lambda one: one.table):
        every = list(of_table)
        scopes = [one.report.scope for one in every if not is_key(one.report.scope.user or "")]
        for scope in scopes:
            context.log.warning("%s: %r has no page, since Dagster takes no partition with U+0000", scope.table, scope.user)
        events = [event for one in every if one.report.scope not in scopes for event in _events(mount, one)]
        done = {event.partition for event in events if isinstance(event, dg.AssetMaterialization)}
        clear_failures(context, mount.asset_key(table), sorted(filter(None, done)))
        log_events(context, events)


def event_kind(report: ScopeReport) -> type[dg.AssetMaterialization] | type[dg.AssetObservation]:
    """A change of the scope is a materialization; a dry run is an observation."""
    return dg.AssetMaterialization if report.outcome == "done" else dg.AssetObservation


def _events(mount: Mount, booked: ScopeEvent) -> list[AssetEvent]:
    return [*(partition_event(mount, booked, touched) for touched in booked.touched), _event(mount, booked)]


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
    return event_kind(report)(
        mount.asset_key(report.scope.table),
        partition=report.scope.user,
        description=_description(report),
        metadata={**_metadata(booked), **_restore_link(mount, report)},
    )


def _metadata(booked: ScopeEvent) -> Metadata:
    found = {**scope_metadata(booked.report, booked.backlog), **_history(booked)}
    return found if booked.of_commit else _unchanged(found)


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
