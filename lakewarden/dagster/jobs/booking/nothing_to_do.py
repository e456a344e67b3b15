"""Books scopes that an operation was requested for and had nothing to do to: Dagster waits for an event of each of them."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import dagster as dg

from lakewarden.base.scope import Scope
from lakewarden.catalog.operations import Operation
from lakewarden.catalog.report import ScopeReport
from lakewarden.client import Lakehouse
from lakewarden.dagster.assets.metadata import NO_BACKLOG
from lakewarden.dagster.jobs.booking.commits import Now, booked_commit, look
from lakewarden.dagster.jobs.booking.events import ScopeEvent, book_events
from lakewarden.dagster.jobs.booking.histories import with_histories
from lakewarden.dagster.jobs.booking.partitions import existing, register_users
from lakewarden.dagster.mount import Mount
from lakewarden.delta.history import entries_of
from lakewarden.delta.scope import open_scope

_THREADS = 8

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
    with ThreadPoolExecutor(_THREADS) as pool:
        booked = list(pool.map(partial(_unchanged, now, operation), [scope for scope in scopes if scope in there - before]))
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
