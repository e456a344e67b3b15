"""The scopes that a flush takes, the plan of them, and their registration before their first commit: none is ever lost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from lakewarden.base.quantities import in_units
from lakewarden.base.scope import Scope, TableName
from lakewarden.catalog.model import Catalog, Table
from lakewarden.catalog.report import ScopeReport
from lakewarden.catalog.state.scope_registry import RegistrationLook
from lakewarden.errors import Conflict, Corrupt, Terminal
from lakewarden.log.objects.log_view import LogView
from lakewarden.log.position import NOTHING
from lakewarden.log.view import PendingRows
from lakewarden.maintenance.plans.value import plan_of
from lakewarden.tables.fanout import fault_of
from lakewarden.tables.warehouse import Warehouse, cold_tables

# Which scopes a flush covers: any that a function accepts, or exactly those that are named.


class Only:
    """Accepts exactly these scopes. The log is searched for their rows; those of others cost nothing."""

    def __init__(self, scopes: Collection[Scope]) -> None:
        self._users: dict[TableName, set[str | None]] = defaultdict(set)
        for scope in scopes:
            self._users[scope.table].add(scope.user)

    def __call__(self, scope: Scope) -> bool:
        return scope.user in self._users.get(scope.table, ())

    def names(self, table: TableName) -> list[str]:
        """The users as the log names them, sorted."""
        return sorted(user or "" for user in self._users.get(table, ()))


def users_wanted(catalog: Catalog, wanted: Callable[[Scope], bool]) -> dict[str, list[str]] | None:
    """By log id, the users who are wanted; None where only a look at each scope shows that."""
    if not isinstance(wanted, Only):
        return None
    return {table.log_id: wanted.names(table.name) for table in cold_tables(catalog)}


def pending_wanted(table: TableName, view: LogView, wanted: Callable[[Scope], bool]) -> Iterable[PendingRows]:
    """The pending rows of a table's wanted scopes."""
    if isinstance(wanted, Only):
        return view.pending_of(wanted.names(table)).values()
    return (rows for rows in view.pending.values() if wanted(Scope(table, rows.user or None)))


def plan_flush(warehouse: Warehouse, catalog: Catalog, wanted: Callable[[Scope], bool]) -> list[ScopeReport]:
    """One report for each scope that has rows, and one for a table whose log cannot be read. Opens no scope: the version is the
    floor's."""
    found = warehouse.logs.views(users_wanted(catalog, wanted))
    reports = list(unread(warehouse, catalog, found.faults, wanted))
    for one in due_scopes(catalog, found.sound, wanted):
        target = warehouse.target_of(catalog, one.table, one.scope.user)
        report = ScopeReport(
            one.scope,
            "flush",
            "planned",
            target.location,
            reason=f"{one.rows.rows} rows in {in_units(one.rows.bytes)} of the log",
            version=None if target.known is None else target.known.version,
            metrics={"rows_pending": one.rows.rows, "bytes_pending": one.rows.bytes},
        )
        reports.append(replace(report, plan=plan_of(report, one.table.log_id, end=one.end)))
    return reports


def unread(
    warehouse: Warehouse, catalog: Catalog, faults: Mapping[str, Terminal], wanted: Callable[[Scope], bool]
) -> Iterable[ScopeReport]:
    """Which scopes of a corrupt log have rows is unknown, so any wanted scope may be one of them, also one of a new user."""
    for table in cold_tables(catalog):
        if table.log_id in faults and _is_wanted(warehouse, table, wanted):
            fault, now = fault_of(faults[table.log_id]), warehouse.clock()
            place = warehouse.location(catalog.storages[table.options.storage_id])
            whole = Scope(table.name, None)
            yield ScopeReport(whole, "flush", "failed", place, reason=fault.message, fault=fault, finished_at=now)


def _is_wanted(warehouse: Warehouse, table: Table, wanted: Callable[[Scope], bool]) -> bool:
    """Whether one of the table's scopes is."""
    if isinstance(wanted, Only):
        return bool(wanted.names(table.name))
    return any(wanted(Scope(table.name, user)) for user in (None, *warehouse.registry.users(table.id)))


@dataclass(frozen=True)
class PendingScope:
    """A scope with rows in the log, up to whose end they were seen."""

    table: Table
    scope: Scope
    rows: PendingRows
    end: int


def due_scopes(catalog: Catalog, views: Mapping[str, LogView], wanted: Callable[[Scope], bool]) -> Iterable[PendingScope]:
    for table in cold_tables(catalog):
        if (view := views.get(table.log_id)) is not None:
            for rows in pending_wanted(table.name, view, wanted):
                yield PendingScope(table, Scope(table.name, rows.user or None), rows, view.end)


def until(one: PendingScope, end: int) -> PendingScope | None:
    """Returns the scope's rows up to the planned end of the log; None where it has none."""
    early = tuple(each for each in one.rows.ranges if each.last_seq <= end)
    if not early:
        return None
    rows, size = sum(each.rows for each in early), sum(each.length for each in early)
    return replace(one, rows=replace(one.rows, rows=rows, bytes=size, ranges=early), end=min(one.end, end))


def registered(
    warehouse: Warehouse, catalog: Catalog, views: Mapping[str, LogView], due: Sequence[PendingScope]
) -> tuple[list[PendingScope], Catalog]:
    """Decides the places of scopes, and registers the new ones, one object a table; returns them with the catalog to go on with.

    Leaves out those of users who were erased since the log was read, which no erasure would remove again. A move that the catalog
    does not show sees every scope that is returned, or the floors know more of it than is at its place.
    """

    def seen_now(log_id: str, catalog: Catalog) -> RegistrationLook:
        return RegistrationLook(views[log_id].removals, catalog.version, warehouse.clock())

    users: dict[str, set[str]] = defaultdict(set)
    for one in due:
        if one.scope.user is not None:
            users[one.table.log_id].add(one.scope.user)
    tables = {one.table.log_id: one.table for one in due}
    if all(warehouse.registered.has(tables[log_id].id, found, seen_now(log_id, catalog)) for log_id, found in users.items()):
        return list(due), catalog
    new = {log_id: _not_registered(warehouse, catalog, tables[log_id], found) for log_id, found in users.items()}
    gone = {log_id: _register(warehouse, tables[log_id], views[log_id], found) for log_id, found in new.items()}
    if any(new.values()) or not all(_has_flushed(warehouse, tables[log_id], found) for log_id, found in users.items()):
        catalog = warehouse.catalog.read()  # read again: a move that is not seen here sees the scopes that were just registered
    for log_id, found in users.items():
        warehouse.registered.note(tables[log_id].id, found - gone[log_id], seen_now(log_id, catalog))
    return [one for one in due if one.rows.user not in gone.get(one.table.log_id, ())], catalog


def _not_registered(warehouse: Warehouse, catalog: Catalog, table: Table, users: set[str]) -> set[str]:
    for user in users:
        warehouse.fix_storage(catalog, table, user)
    return users - warehouse.registry.known(table.id, users)


def _has_flushed(warehouse: Warehouse, table: Table, users: set[str]) -> bool:
    """Whether the state knows a table of each of these scopes. A move that the catalog does not show has seen them, or they began
    behind it at the new place: then the old one has less than is known, and no flush goes on there."""
    try:
        known = warehouse.read_ahead(table, users)
    except (Conflict, Corrupt):  # as each of the scopes will say
        return False
    return len(known) == len(users) and all(not each.forgotten and each.watermark > NOTHING for each in known.values())


def _register(warehouse: Warehouse, table: Table, view: LogView, new: set[str]) -> set[str]:
    """The users who were erased meanwhile, whose scopes are not registered."""
    if not new:
        return set()
    noted = warehouse.registry.add(table.id, new)
    gone = warehouse.log(table).gone_since(view, new)
    if gone:
        warehouse.registry.withdraw(table.id, noted, gone)
    return gone
