"""`record_job`: books in Dagster what happened outside it.

The warehouse is the source of truth; Dagster's events are outdated after work by the command line, and missing in a new
Dagster. This books the scopes without an event, as their newest commit left them, with their history.
"""

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import cast

import dagster as dg
from pydantic import Field

from assets.metadata import HISTORY_ENTRIES, NO_BACKLOG, Backlog
from assets.tables import asset_key, is_crowded
from jobs.booking import Booked, backlog_of, book_events, register_users
from jobs.failures import RETRIES, declined
from jobs.selection import ScopeSelection
from jobs.tags import job_tags
from lakewarden.catalog.model import Catalog, Table
from lakewarden.clock import from_millis
from lakewarden.delta.history import entries_of
from lakewarden.delta.scope import open_scope
from lakewarden.lakehouse import Lakehouse
from lakewarden.report import Operation, ScopeReport
from lakewarden.scope import Scope

_THREADS = 8


class RecordConfig(ScopeSelection):
    """Which scopes to book. By default every scope of the warehouse that has no event in Dagster."""

    again: bool = Field(False, description="Book the current state of scopes that have an event, too.")


@dg.op(retry_policy=RETRIES, description="Read the scopes' newest commits, and book one event for each.")
def record(context: dg.OpExecutionContext, config: RecordConfig, lake: dg.ResourceParam[Lakehouse]) -> None:
    with declined():
        book_unknown(context, lake, _tables(lake, config.tables), config.user, again=config.again)


def book_unknown(
    context: dg.OpExecutionContext, lake: Lakehouse, tables: Iterable[Table], user: str | None = None, *, again: bool = False
) -> None:
    """Books the scopes of the tables, or of the user, that have no event in Dagster; with `again` the others too."""
    for table in tables:
        if is_crowded(lake.warehouse, table):
            context.log.info("%s: has too many users for partitions, so its scopes have no events of their own", table.name)
            continue
        scopes = list(_scopes(context.instance, lake, table, user, again=again))
        register_users(context.instance, scopes)
        with ThreadPoolExecutor(_THREADS) as pool:
            found = pool.map(partial(as_it_stands, lake, lake.warehouse.catalog.read(), backlog_of(lake)), scopes)
            booked = [one for one in found if one]
        book_events(context, booked)
        context.log.info("%s: booked %d scopes", table.name, len(booked))


@dg.job(executor_def=dg.in_process_executor, tags=job_tags("record"), description="Books what was done outside of Dagster.")
def record_job() -> None:
    record()


def _tables(lake: Lakehouse, names: Iterable[str]) -> list[Table]:
    named = [lake.table(name).table for name in names]
    return named or lake.tables()


def _scopes(instance: dg.DagsterInstance, lake: Lakehouse, table: Table, user: str | None, *, again: bool) -> Iterable[Scope]:
    if table.type == "SHARED":
        known = not again and instance.get_latest_materialization_event(asset_key(table.name)) is not None
        return [] if known else [Scope(table.name)]
    users = {user} if user is not None else set(lake.warehouse.registry.users(table.id))
    known_users = set() if again else instance.get_materialized_partitions(asset_key(table.name))
    return [Scope(table.name, user) for user in sorted(users - known_users)]


def as_it_stands(lake: Lakehouse, catalog: Catalog, backlogs: Mapping[Scope, Backlog], scope: Scope) -> Booked | None:
    """The scope's newest commit as a report; None if it has no table."""
    target = lake.warehouse.target(catalog, scope)
    table = open_scope(target)
    if table is None:
        return None
    commits = entries_of(table, HISTORY_ENTRIES)
    newest = commits[0]
    report = ScopeReport(
        scope=scope,
        operation=cast("Operation", newest.operation),  # a foreign commit has its own word: it is only shown
        outcome="done",
        location=target.location,
        reason="booked afterwards",
        version=table.version,
        parameters=dict(newest.parameters),
        metrics={name: value for name, value in newest.operation_metrics.items() if isinstance(value, int)},
        state=table.state(target.app_id),
        finished_at=from_millis(int(newest.timestamp)),
    )
    return Booked(report, commits, backlogs.get(scope, NO_BACKLOG))
