"""Books scopes whose newest event is older than their table: what a run committed before it died, and what other programs did."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import cast

import dagster as dg

from lakewarden.catalog.model import Catalog, Table
from lakewarden.clock import from_millis
from lakewarden.dagster.assets.metadata import HISTORY_ENTRIES, NO_BACKLOG, Backlog
from lakewarden.dagster.assets.tables import is_crowded
from lakewarden.dagster.jobs.events import Booked, backlog_of, book_events, register_users
from lakewarden.dagster.mount import Mount
from lakewarden.delta.history import HistoryEntry, entries_of
from lakewarden.delta.scope import open_scope
from lakewarden.lakehouse import Lakehouse
from lakewarden.report import Operation, ScopeReport
from lakewarden.scope import Scope
from lakewarden.specs import SPECS

VERSION = "delta/version"

_THREADS = 8
_PAGE = 500
_LOOKED_BACK = 20
"""Events of a table without partitions among which one with a version is searched: certificates of erasures have none."""


def book_behind(
    context: dg.OpExecutionContext,
    lake: Lakehouse,
    mount: Mount,
    tables: Iterable[Table],
    user: str | None = None,
    *,
    again: bool = False,
) -> None:
    """Books the scopes of the tables, or of the user, whose newest event is not of their newest version.

    Args:
        again: books the others too.
    """
    for table in tables:
        if is_crowded(lake.warehouse, table):
            context.log.info("%s: has too many users for partitions, so its scopes have no events of their own", table.name)
            continue
        known = {} if again else booked_versions(context.instance, mount, table)
        scopes = list(_scopes(lake, table, user))
        with ThreadPoolExecutor(_THREADS) as pool:
            found = pool.map(partial(_if_behind, lake, lake.warehouse.catalog.read(), backlog_of(lake), known), scopes)
            booked = [one for one in found if one]
        register_users(context.instance, mount, [one.report.scope for one in booked])
        book_events(context, mount, booked)
        context.log.info("%s: booked %d scopes", table.name, len(booked))


def named_tables(lake: Lakehouse, config: Mapping[str, object]) -> list[Table]:
    """The tables that an operation's config names, in whichever of its fields; all tables where it names none."""
    named = {str(name) for field in ("tables", "scopes") if isinstance(names := config.get(field), Iterable) for name in names}
    one = config.get("table")
    named |= {str(one)} if one else set()
    return [table for table in lake.tables() if not named or str(table.name) in named]


def _scopes(lake: Lakehouse, table: Table, user: str | None) -> Iterator[Scope]:
    if table.type == "SHARED":
        return iter([Scope(table.name)])
    users = {user} if user is not None else lake.warehouse.registry.users(table.id)
    return (Scope(table.name, one) for one in sorted(users))


def booked_versions(instance: dg.DagsterInstance, mount: Mount, table: Table) -> dict[Scope, int]:
    """The Delta version in each scope's newest event."""
    key = mount.asset_key(table.name)
    if table.type == "SHARED":
        newest = instance.fetch_materializations(key, limit=_LOOKED_BACK).records
        return dict(islice(_versions(table, newest), 1))
    newest_ids = instance.event_log_storage.get_latest_storage_id_by_partition(key, dg.DagsterEventType.ASSET_MATERIALIZATION)
    storage_ids = list(newest_ids.values())
    found: dict[Scope, int] = {}
    for start in range(0, len(storage_ids), _PAGE):
        page = storage_ids[start : start + _PAGE]
        records = instance.fetch_materializations(dg.AssetRecordsFilter(key, storage_ids=page), limit=_PAGE).records
        found.update(_versions(table, records))
    return found


def _versions(table: Table, records: Sequence[dg.EventLogRecord]) -> Iterator[tuple[Scope, int]]:
    for record in records:
        event = record.asset_materialization
        version = event.metadata.get(VERSION) if event else None
        if isinstance(version, dg.IntMetadataValue) and version.value is not None:
            yield Scope(table.name, record.partition_key), version.value


def _if_behind(
    lake: Lakehouse, catalog: Catalog, backlogs: Mapping[Scope, Backlog], known: Mapping[Scope, int], scope: Scope
) -> Booked | None:
    """The scope's newest commit as a report; None if it is booked, or has no table."""
    target = lake.warehouse.target(catalog, scope)
    table = open_scope(target)
    if table is None or table.version <= known.get(scope, -1):
        return None
    commits = entries_of(table, HISTORY_ENTRIES)
    newest = commits[0]
    report = ScopeReport(
        scope=scope,
        operation=cast("Operation", _operation(newest)),  # a foreign commit has its own word: it is only shown
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


_BY_PREFIX = {spec.prefix: name for name, spec in SPECS.items()}


def _operation(commit: HistoryEntry) -> str:
    """The operation in this project's words, by the id of the job that made the commit; Delta's word for another program's."""
    job = str(commit.user_metadata.get("job_id", ""))
    return _BY_PREFIX.get(job.partition("-")[0], commit.operation)
