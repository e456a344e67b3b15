"""Which scopes of whole tables compact, optimize and vacuum open, by what the state knows of them, and reports on the others."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from lakewarden.base.connection import Location
from lakewarden.base.scope import Scope
from lakewarden.catalog.model import Catalog, Table
from lakewarden.catalog.operations import Operation
from lakewarden.catalog.report import ScopeReport
from lakewarden.catalog.state.failed_checks import NO_FILE_MENDS
from lakewarden.catalog.target import ScopeTarget
from lakewarden.errors import Corrupt, LakewardenError
from lakewarden.maintenance.plans.needs import Need
from lakewarden.maintenance.plans.rounds import Round, VacuumTurn
from lakewarden.maintenance.plans.select import RollingLook, SelectedScopes, select
from lakewarden.maintenance.scopes import scopes_of, targets_of
from lakewarden.tables.fanout import failed_report
from lakewarden.tables.presence import Presence
from lakewarden.tables.warehouse import Warehouse

QUIET = "scopes_quiet"
"""The metric of a report on scopes that were not opened: how many."""

FAILED = "scopes_failed"
"""The metric of one report on the many scopes of a table that failed for the same reason."""

_LISTED = 100
"""Scopes of a table that are quiet, or that failed for the same reason, which are reported one by one."""


@dataclass(frozen=True)
class ChosenScopes:
    """The scopes of a table to open, and reports on the others."""

    targets: list[ScopeTarget]
    others: list[ScopeReport] = field(default_factory=list)
    turn: VacuumTurn | None = None


def choose_scopes(
    warehouse: Warehouse, catalog: Catalog, table: Table, operation: Operation, need: Need | None, going_round: Round | None
) -> ChosenScopes:
    """Those that the operation may need to open. Where the table's floor cannot be read or its storage is away, none is opened,
    and each is reported as failed.

    Args:
        need: when the operation opens a scope; None where it opens all.
        going_round: the round in which it comes to every scope; None where it goes no round.
    """
    away = list(Presence.among([warehouse.root(catalog.storages[table.options.storage_id])]).away.values())
    if away and not table.options.use_user_storage:
        return ChosenScopes([], _failed(warehouse, catalog, table, operation, away[0]))
    try:
        if need is None or away:  # nothing is quiet on a storage that is away; users may have others
            return ChosenScopes(targets_of(warehouse, catalog, [str(table.name)], None))
        rolling, besides = RollingLook.of(warehouse), _obstructed(warehouse, table)
        found = select(warehouse, catalog, table, need, rolling, besides, going_round=going_round)
        targets = [warehouse.target(catalog, Scope(table.name, user)) for user in sorted(found.users, key=str)]
        return ChosenScopes(targets, _report(warehouse, catalog, table, operation, found), found.turn)
    except Corrupt as error:
        return ChosenScopes([], _failed(warehouse, catalog, table, operation, error))


def _obstructed(warehouse: Warehouse, table: Table) -> list[str]:
    """The keyed hashes of scopes in which something of another writer is in the way: that is said, not that nothing is to do."""
    failed = warehouse.failed_checks.of(table.id)
    return [mark for mark, failures in failed.items() if any(each.check in NO_FILE_MENDS for each in failures)]


def _failed(
    warehouse: Warehouse, catalog: Catalog, table: Table, operation: Operation, error: LakewardenError
) -> list[ScopeReport]:
    """A failed report for each scope of the table; of many, one that counts them."""
    scopes, now = scopes_of(warehouse, table, None), warehouse.clock()
    listed = [warehouse.bare_target(catalog, table, scope.user) for scope in scopes[:_LISTED]]
    reports = [failed_report(target, operation, error, now) for target in listed]
    if len(scopes) <= _LISTED:
        return reports
    place = warehouse.location(catalog.storages[table.options.storage_id])
    reason = f"{len(scopes)} scopes: {reports[0].reason}"
    return [replace(reports[0], scope=Scope(table.name), location=place, reason=reason, metrics={FAILED: len(scopes)})]


def _report(
    warehouse: Warehouse, catalog: Catalog, table: Table, operation: Operation, found: SelectedScopes
) -> list[ScopeReport]:
    """A report for each quiet scope; of many, one that counts them."""
    if not found.quiet:
        return []
    reason = "nothing to do, by what the state knows"
    if found.quiet > _LISTED:
        place = warehouse.location(catalog.storages[table.options.storage_id])
        reason = f"nothing to do in {found.quiet} scopes, by what the state knows"
        return [_quiet(Scope(table.name), operation, place, reason, found.quiet)]
    opened = set(found.users)
    scopes = [scope for scope in scopes_of(warehouse, table, None) if scope.user not in opened]
    places = [warehouse.location_of(catalog, table, scope.user) for scope in scopes]
    return [_quiet(scope, operation, place, reason, 1) for scope, place in zip(scopes, places, strict=True)]


def _quiet(scope: Scope, operation: Operation, place: Location, reason: str, scopes: int) -> ScopeReport:
    return ScopeReport(scope, operation, "skipped", place, reason=reason, metrics={QUIET: scopes})
