"""Books scopes whose newest event is older than their table: what a run committed before it died, and what other programs did."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import repeat
from typing import cast

import dagster as dg

from lakewarden.base.connection import Location
from lakewarden.base.quantities import portions
from lakewarden.base.scope import Scope
from lakewarden.base.threads import at_once
from lakewarden.catalog.model import Table
from lakewarden.catalog.operations import Operation
from lakewarden.catalog.report import ScopeReport
from lakewarden.client import Lakehouse
from lakewarden.dagster.assets.metadata import NO_BACKLOG, SHOWN, VERSION, line_of_entry
from lakewarden.dagster.assets.partition_values import MAX_VALUES, has_values, is_key
from lakewarden.dagster.assets.tables import is_crowded
from lakewarden.dagster.jobs.event_log.events import ScopeEvent, book_events, register_users
from lakewarden.dagster.jobs.event_log.histories import Now, booked_commit, look, newest_events, with_values
from lakewarden.dagster.jobs.runs import book_themselves, tables_in
from lakewarden.dagster.lakehouse import WarehouseRun, run_of
from lakewarden.dagster.mount import Mount
from lakewarden.delta.reading.history import entries_below
from lakewarden.delta.scope import open_scope
from lakewarden.errors import LakewardenError
from lakewarden.tables.fanout import fault_of

Versions = frozenset[tuple[Scope, int | None]]

_COMMITS = 20
"""Commits of a scope that are read: those of them that have no event are booked."""
_PAGE = 500
_FEW = 20
"""Scopes of which all events are read together: each has some twenty, and those of the last day."""

_LOOKED_BACK = 20
"""Events of a table without partitions among which one with a version is searched: certificates of erasures have none."""


@dataclass(frozen=True)
class BookingRun:
    """What a run of Dagster books by itself, and for whom."""

    own: str = ""
    """Its job, whose commits are not booked afterwards."""
    others: Versions = frozenset()
    """Versions that it books itself."""
    lost: frozenset[str] = frozenset()
    """The beginnings of the ids of runs that died before they booked. If there are any, their commits are booked, and no others:
    two retries and `record_job` may be at work at once."""


def book_behind(
    run: WarehouseRun, tables: Iterable[Table], user: str | None = None, *, again: bool = False, by: BookingRun = BookingRun()
) -> list[ScopeReport]:
    """Books the scopes of the tables, or of the user, whose newest event is not of their newest version.

    Args:
        again: books the others too.

    Returns:
        What was booked, and what could not be read, as failed: one scope keeps no other from its pages.
    """
    context, lake, mount = run.context, run.lake, run.mount
    reports = list[ScopeReport]()
    for table in tables:
        if is_crowded(lake.warehouse, table):
            context.log.info("%s: has too many users for partitions, so its scopes have no events of their own", table.name)
            continue
        known = {} if again else booked_versions(context.instance, mount, table)
        found, failed = _look_at(lake, table, user, known, by.lost)
        behind = [one for one in found if (one.report.scope, one.report.version) not in by.others]
        theirs = book_themselves(context.instance, context.run, lake.warehouse.clock) - by.lost
        unbooked = behind if again else _unbooked(run, table, behind, theirs)
        booked = [replace(one, report=replace(one.report, reason="")) if one.job_id == by.own else one for one in unbooked]
        register_users(context.instance, mount, [one.report.scope for one in booked])
        book_events(context, mount, with_values(run, booked))
        context.log.info("%s: booked %d commits", table.name, len(booked))
        for one in failed:
            context.log.warning("%s is not booked: %s", one.scope, one.fault)
        reports += [*(one.report for one in booked), *failed]
    return reports


def _look_at(
    lake: Lakehouse, table: Table, user: str | None, known: Mapping[Scope, int], lost: frozenset[str]
) -> tuple[list[ScopeEvent], list[ScopeReport]]:
    """The commits of the table's scopes that have no event, and the scopes that cannot be read."""
    try:
        now, scopes = look(lake), list(_scopes(lake, table, user))
    except LakewardenError as error:
        return [], [_failed(Scope(table.name), error)]
    found = at_once(partial(_behind_or_failed, now, known, lost), scopes)
    failed = [one for one in found if isinstance(one, ScopeReport)]
    return [one for commits in found if not isinstance(commits, ScopeReport) for one in commits], failed


def _behind_or_failed(
    now: Now, known: Mapping[Scope, int], lost: frozenset[str], scope: Scope
) -> Sequence[ScopeEvent] | ScopeReport:
    try:
        return _behind(now, known, lost, scope)
    except LakewardenError as error:
        return _failed(scope, error)


def _failed(scope: Scope, error: LakewardenError) -> ScopeReport:
    return ScopeReport(scope, cast("Operation", "record"), "failed", Location(""), fault=fault_of(error))


def named_tables(lake: Lakehouse, config: Mapping[str, object]) -> list[Table]:
    """The tables that an operation's config names, in whichever of its fields; all tables where it names none."""
    named = tables_in(config)
    return [table for table in lake.tables() if not named or str(table.name) in named]


def _unbooked(run: WarehouseRun, table: Table, behind: Sequence[ScopeEvent], theirs: Collection[str]) -> list[ScopeEvent]:
    """Those that no other run has booked, or is about to: a run books when it has done all of its scopes.

    The order matters. A run that made the commit and is not under way any more has booked it, before its events are read here.
    What came behind a commit that is left to `theirs` is left, too: a partition's last event counts as its newest.
    """
    left: dict[Scope, int] = {}
    for one in behind:
        if run_of(one.job_id) in theirs:
            left[one.report.scope] = min(_version(one), left.get(one.report.scope, _version(one)))
    free = [one for one in behind if one.report.scope not in left or _version(one) < left[one.report.scope]]
    known = booked_versions(run.context.instance, run.mount, table, [one.report.scope.user or "" for one in free]) if free else {}
    return [one for one in free if _version(one) > known.get(one.report.scope, -1)]


def _version(one: ScopeEvent) -> int:
    return one.report.version or 0


def _scopes(lake: Lakehouse, table: Table, user: str | None) -> Iterator[Scope]:
    if table.type == "SHARED":
        return iter([Scope(table.name)])
    users = {user} if user is not None else lake.warehouse.registry.users(table.id)
    return (Scope(table.name, one) for one in sorted(users) if is_key(one))


def booked_versions(
    instance: dg.DagsterInstance, mount: Mount, table: Table, users: Collection[str] | None = None
) -> dict[Scope, int]:
    """The Delta version in the newest event of a commit of each scope, or of the users' scopes."""
    key = mount.asset_key(table.name)
    if table.type == "SHARED":
        return _of_whole(instance, table, key)
    newest = {record.partition_key: _version_in(record) for record in newest_events(instance, key, users)}
    found = {Scope(table.name, user): version for user, version in newest.items() if version is not None}
    unchanged = [user for user, version in newest.items() if version is None and user is not None]
    return {**found, **_before_unchanged(instance, table, key, unchanged)}


def _of_whole(instance: dg.DagsterInstance, table: Table, key: dg.AssetKey) -> dict[Scope, int]:
    """The version of a SHARED table. Before the event of a whole table are those of its partitions, which may be many."""
    pages, cursor = (_LOOKED_BACK, *repeat(_PAGE, MAX_VALUES // _PAGE if has_values(table) else 0)), None
    for size in pages:
        page = instance.fetch_materializations(key, limit=size, cursor=cursor)
        for record in page.records:
            if record.partition_key is None and (version := _version_in(record)) is not None:
                return {Scope(table.name): version}
        cursor = page.cursor
    return {}


def _before_unchanged(instance: dg.DagsterInstance, table: Table, key: dg.AssetKey, users: Sequence[str]) -> Mapping[Scope, int]:
    """The versions of scopes whose newest event is of no commit."""
    found: dict[Scope, int] = {}
    for few in portions(users, lambda _: 1, _FEW):
        wanted, cursor, more = dg.AssetRecordsFilter(key, asset_partitions=few), None, True
        while more:
            page = instance.fetch_materializations(wanted, limit=_PAGE, cursor=cursor)
            for record in page.records:
                if (version := _version_in(record)) is not None:
                    found.setdefault(Scope(table.name, record.partition_key), version)
            cursor, more = page.cursor, page.has_more
    return found


def _version_in(record: dg.EventLogRecord) -> int | None:
    """The version in an event of a commit."""
    event = record.asset_materialization
    version = event.metadata.get(VERSION) if event else None
    return version.value if isinstance(version, dg.IntMetadataValue) else None


def _behind(now: Now, known: Mapping[Scope, int], lost: frozenset[str], scope: Scope) -> Sequence[ScopeEvent]:
    """The scope's commits that have no event, oldest first; empty if it is booked, or has no table.

    Of the lost runs all, else those that came after the version that is known, since a run may have committed twice before it
    died. Of a scope without events, the newest alone: another program's history is not booked commit by commit.
    """
    target = now.lake.warehouse.target(now.catalog, scope)
    table = open_scope(target)
    if table is None or table.version <= known.get(scope, -1):
        return ()
    commits = entries_below(table.location, table.version + 1, _COMMITS)
    lines = [line_of_entry(commit) for commit in commits]
    unbooked = [place for place, commit in enumerate(commits) if not place or commit.version > known.get(scope, -1)]
    found = [
        replace(booked_commit(target, commits[place], None if place else table), history=lines[place : place + SHOWN])
        for place in unbooked
    ]
    # What waits in the log waits now: it goes with the newest event alone.
    found[0] = replace(found[0], backlog=now.backlogs.get(scope, NO_BACKLOG))
    if lost:
        return [one for one in reversed(found) if run_of(one.job_id) in lost]
    return found[::-1] if scope in known else found[:1]
