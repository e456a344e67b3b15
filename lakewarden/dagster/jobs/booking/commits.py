"""A scope's newest commit as a report, for events of what this process did not do itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from lakewarden.base.scope import Scope
from lakewarden.catalog.model import Catalog
from lakewarden.catalog.operations import Operation
from lakewarden.catalog.report import ScopeReport
from lakewarden.catalog.target import ScopeTarget
from lakewarden.client import Lakehouse
from lakewarden.dagster.assets.history import job_id_of, operation_of
from lakewarden.dagster.assets.metadata import Backlog
from lakewarden.dagster.jobs.booking.events import ScopeEvent, backlog_of
from lakewarden.delta.history import HistoryEntry
from lakewarden.delta.table import ScopeTable


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
