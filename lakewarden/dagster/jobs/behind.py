"""Books scopes whose newest event is older than their table: what a run committed before it died, and what other programs did."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import cast

import dagster as dg

from lakewarden.catalog.model import Catalog, Table
from lakewarden.clock import from_millis
from lakewarden.dagster.assets.metadata import HISTORY_ENTRIES, NO_BACKLOG, Backlog
from lakewarden.dagster.assets.tables import is_crowded
from lakewarden.dagster.jobs.events import Booked, backlog_of, book_events, register_users
from lakewarden.dagster.jobs.tags import tables_in
from lakewarden.dagster.mount import Mount
from lakewarden.delta.history import HistoryEntry, entries_of
from lakewarden.delta.scope import open_scope
from lakewarden.delta.table import ScopeTable
from lakewarden.lakehouse import Lakehouse
from lakewarden.report import ScopeReport
from lakewarden.scope import Scope
from lakewarden.specs import SPECS, Operation
from lakewarden.target import ScopeTarget

VERSION = "delta/version"

Versions = frozenset[tuple[Scope, int | None]]

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
    others: Versions = frozenset(),
) -> None:
    """Books the scopes of the tables, or of the user, whose newest event is not of their newest version.

    Args:
        again: books the others too.
        others: versions that the run itself books.
    """
    for table in tables:
        if is_crowded(lake.warehouse, table):
            context.log.info("%s: has too many users for partitions, so its scopes have no events of their own", table.name)
            continue
        known = {} if again else booked_versions(context.instance, mount, table)
        scopes = list(_scopes(lake, table, user))
        with ThreadPoolExecutor(_THREADS) as pool:
            booked = [
                one for found in pool.map(partial(_behind, replace(_now(lake), others=others), known), scopes) for one in found
            ]
        register_users(context.instance, mount, [one.report.scope for one in booked])
        book_events(context, mount, booked)
        context.log.info("%s: booked %d commits", table.name, len(booked))


@dataclass(frozen=True)
class _Now:
    """What does not change while scopes are looked at."""

    lake: Lakehouse
    catalog: Catalog
    backlogs: Mapping[Scope, Backlog]
    others: Versions = frozenset()


def _now(lake: Lakehouse) -> _Now:
    return _Now(lake, lake.warehouse.catalog.read(), backlog_of(lake))


NOTHING_PENDING = "nothing was pending"


def book_unchanged(
    context: dg.OpExecutionContext, lake: Lakehouse, mount: Mount, scopes: Sequence[Scope], operation: Operation
) -> None:
    """Books scopes that an operation was requested for and had nothing to do to, as they are. A retry books none again."""
    before = _booked_by(context, mount) if context.retry_number else frozenset[Scope]()
    now = _now(lake)
    with ThreadPoolExecutor(_THREADS) as pool:
        booked = list(pool.map(partial(_unchanged, now, operation), [scope for scope in scopes if scope not in before]))
    register_users(context.instance, mount, [one.report.scope for one in booked])
    book_events(context, mount, booked)


def _unchanged(now: _Now, operation: Operation, scope: Scope) -> Booked:
    target = now.lake.warehouse.target(now.catalog, scope)
    report = ScopeReport(scope, operation, "done", target.location, reason=NOTHING_PENDING)
    table = open_scope(target)
    if table is not None:
        known = _report(target, table, entries_of(table, 1)[0])
        report = replace(report, version=known.version, state=known.state, finished_at=known.finished_at)
    return Booked(report, backlog=now.backlogs.get(scope, NO_BACKLOG))


def _booked_by(context: dg.OpExecutionContext, mount: Mount) -> frozenset[Scope]:
    """The scopes of which this run has booked an event."""
    records = context.instance.get_records_for_run(context.run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION).records
    events = [record.asset_materialization for record in records]
    return frozenset(Scope(table, event.partition) for event in events if event and (table := mount.table_of(event.asset_key)))


def named_tables(lake: Lakehouse, config: Mapping[str, object]) -> list[Table]:
    """The tables that an operation's config names, in whichever of its fields; all tables where it names none."""
    named = tables_in(config)
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


def _behind(now: _Now, known: Mapping[Scope, int], scope: Scope) -> Sequence[Booked]:
    """The scope's newest commit as a report, with the last ones before it; empty if it is booked, or has no table.

    Before it those that came after the version that is known: a run may have committed twice before it died.
    """
    target = now.lake.warehouse.target(now.catalog, scope)
    table = open_scope(target)
    if table is None or table.version <= known.get(scope, -1):
        return ()
    commits = entries_of(table, HISTORY_ENTRIES)
    newest = Booked(_report(target, table, commits[0]), commits, now.backlogs.get(scope, NO_BACKLOG))
    since = known.get(scope, commits[0].version)
    before = [Booked(_commit(target, one)) for one in reversed(commits[1:]) if one.version > since]
    return [one for one in (*before, newest) if (scope, one.report.version) not in now.others]


def _report(target: ScopeTarget, table: ScopeTable, newest: HistoryEntry) -> ScopeReport:
    return replace(_commit(target, newest), state=table.state(target.app_id))


def _commit(target: ScopeTarget, commit: HistoryEntry) -> ScopeReport:
    return ScopeReport(
        scope=target.scope,
        operation=cast("Operation", _operation(commit)),  # a foreign commit has its own word: it is only shown
        outcome="done",
        location=target.location,
        reason="booked afterwards",
        version=commit.version,
        parameters=dict(commit.parameters),
        metrics={name: value for name, value in commit.operation_metrics.items() if isinstance(value, int)},
        finished_at=from_millis(int(commit.timestamp)),
    )


_BY_PREFIX = {spec.prefix: name for name, spec in SPECS.items()}


def _operation(commit: HistoryEntry) -> str:
    """The operation in this project's words, by the id of the job that made the commit; Delta's word for another program's."""
    job = str(commit.user_metadata.get("job_id", ""))
    return _BY_PREFIX.get(job.partition("-")[0], commit.operation)
