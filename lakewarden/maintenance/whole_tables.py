"""Compact, optimize and vacuum over whole tables: opens the scopes that may need it, by what the state knows of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from lakewarden.base.connection import Location
from lakewarden.base.scope import Scope
from lakewarden.catalog.model import Catalog, Table
from lakewarden.catalog.operations import Selection
from lakewarden.catalog.report import ScopeReport
from lakewarden.catalog.state.failed_checks import NO_FILE_MENDS
from lakewarden.catalog.target import ScopeTarget
from lakewarden.errors import Corrupt, LakewardenError
from lakewarden.maintenance.maintain import maintain_targets
from lakewarden.maintenance.plans.scope_options import ScopeOptions
from lakewarden.maintenance.scopes import left_out, named_tables, readable_targets, scopes_of, targets_of
from lakewarden.maintenance.upkeep.needs import Need
from lakewarden.maintenance.upkeep.rounds import Round, VacuumTurn, note_turn
from lakewarden.maintenance.upkeep.select import RollingLook, SelectedScopes, select
from lakewarden.tables.fanout import Run, failed_report
from lakewarden.tables.presence import Presence
from lakewarden.tables.warehouse import Warehouse, cold_tables

NeedOf = Callable[[Table], Need | None]
"""When an operation opens a scope of the table; None where it opens all."""

RoundOf = Callable[[Table], Round | None]
"""The round in which an operation comes to every scope of the table; None where it goes no round."""

QUIET = "scopes_quiet"
"""The metric of a report on scopes that were not opened: how many."""

FAILED = "scopes_failed"
"""The metric of one report on the many scopes of a table that failed for the same reason."""

_LISTED = 100
"""Scopes of a table that are quiet, or that failed for the same reason, which are reported one by one."""


def maintain(
    warehouse: Warehouse,
    run: Run,
    selection: Selection,
    options: ScopeOptions,
    need_of: NeedOf,
    round_of: RoundOf,
    *,
    dry_run: bool,
    job_id: str,
    spread: Run | None = None,
) -> list[ScopeReport]:
    """One job over the scopes of the tables (all where none is named); durable on a local disk when it returns.

    Scopes in which nothing is to do, by what the state knows, are not opened; where a table has many of them, one report counts
    them. A request with `look`, or for one user, opens each scope. The scopes of a table whose floor cannot be read fail, as do
    those on a storage that is away, in one report where they are many; those of the others are done.

    Raises:
        NotFound, InvalidArgument: a name, a user or an option is not valid; nothing was done.
    """
    catalog = warehouse.catalog.read()
    idle = [] if selection.tables else left_out(warehouse, catalog, options.operation, cold_tables(catalog))
    if selection.look or selection.user is not None or not warehouse.identifies:
        targets, unread = readable_targets(warehouse, catalog, selection.tables, selection.user)
        held = [failed_report(target, options.operation, error, warehouse.clock()) for target, error in unread]
        done = maintain_targets(warehouse, run, targets, options, dry_run=dry_run, job_id=job_id, spread=spread)
        return done + held + idle
    tables = named_tables(catalog, selection.tables)
    for table in tables:
        options.check(table.name, table.schema, warehouse.retention_hours(table))
    chosen = [_chosen(warehouse, catalog, table, options, need_of(table), round_of(table)) for table in tables]
    targets = [target for one in chosen for target in one.targets]
    reports = maintain_targets(warehouse, run, targets, options, dry_run=dry_run, job_id=job_id, spread=spread)
    for table, one in zip(tables, chosen, strict=True):
        if one.turn:
            note_turn(warehouse, table, one.turn, dry_run=dry_run)
    return reports + [report for one in chosen for report in one.others] + idle


@dataclass(frozen=True)
class _Chosen:
    """The scopes of a table to open, and reports on the others."""

    targets: list[ScopeTarget]
    others: list[ScopeReport] = field(default_factory=list)
    turn: VacuumTurn | None = None


def _chosen(
    warehouse: Warehouse,
    catalog: Catalog,
    table: Table,
    options: ScopeOptions,
    need: Need | None,
    going_round: Round | None,
) -> _Chosen:
    """Where the table's floor cannot be read or its storage is away, none is opened, and each is reported as failed."""
    away = list(Presence.among([warehouse.root(catalog.storages[table.options.storage_id])]).away.values())
    if away and not table.options.use_user_storage:
        return _Chosen([], _failed(warehouse, catalog, table, options, away[0]))
    try:
        if need is None or away:  # nothing is quiet on a storage that is away; users may have others
            return _Chosen(targets_of(warehouse, catalog, [str(table.name)], None))
        rolling, besides = RollingLook.of(warehouse), _obstructed(warehouse, table)
        found = select(warehouse, catalog, table, need, rolling, besides, going_round=going_round)
        targets = [warehouse.target(catalog, Scope(table.name, user)) for user in sorted(found.users, key=str)]
        return _Chosen(targets, _report(warehouse, catalog, table, options, found), found.turn)
    except Corrupt as error:
        return _Chosen([], _failed(warehouse, catalog, table, options, error))


def _obstructed(warehouse: Warehouse, table: Table) -> list[str]:
    """The keyed hashes of scopes in which something of another writer is in the way: that is said, not that nothing is to do."""
    failed = warehouse.failed_checks.of(table.id)
    return [mark for mark, failures in failed.items() if any(each.check in NO_FILE_MENDS for each in failures)]


def _failed(
    warehouse: Warehouse, catalog: Catalog, table: Table, options: ScopeOptions, error: LakewardenError
) -> list[ScopeReport]:
    """A failed report for each scope of the table; of many, one that counts them."""
    scopes, now = scopes_of(warehouse, table, None), warehouse.clock()
    listed = [warehouse.bare_target(catalog, table, scope.user) for scope in scopes[:_LISTED]]
    reports = [failed_report(target, options.operation, error, now) for target in listed]
    if len(scopes) <= _LISTED:
        return reports
    place = warehouse.location(catalog.storages[table.options.storage_id])
    reason = f"{len(scopes)} scopes: {reports[0].reason}"
    return [replace(reports[0], scope=Scope(table.name), location=place, reason=reason, metrics={FAILED: len(scopes)})]


def _report(
    warehouse: Warehouse, catalog: Catalog, table: Table, options: ScopeOptions, found: SelectedScopes
) -> list[ScopeReport]:
    """A report for each quiet scope; of many, one that counts them."""
    if not found.quiet:
        return []
    reason = "nothing to do, by what the state knows"
    if found.quiet > _LISTED:
        place = warehouse.location(catalog.storages[table.options.storage_id])
        reason = f"nothing to do in {found.quiet} scopes, by what the state knows"
        return [_quiet(Scope(table.name), options, place, reason, found.quiet)]
    opened = set(found.users)
    scopes = [scope for scope in scopes_of(warehouse, table, None) if scope.user not in opened]
    places = [warehouse.bare_target(catalog, table, scope.user).location for scope in scopes]
    return [_quiet(scope, options, place, reason, 1) for scope, place in zip(scopes, places, strict=True)]


def _quiet(scope: Scope, options: ScopeOptions, place: Location, reason: str, scopes: int) -> ScopeReport:
    return ScopeReport(scope, options.operation, "skipped", place, reason=reason, metrics={QUIET: scopes})
