"""Which scopes an operation covers: those of the named tables, or of all, for every user or for one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from lakewarden.base.connection import Location
from lakewarden.base.scope import Scope, TableName
from lakewarden.catalog.access import require
from lakewarden.catalog.changes.engines import DISABLED, is_active, require_active
from lakewarden.catalog.changes.objects import table_place
from lakewarden.catalog.model import Catalog, Table
from lakewarden.catalog.operations import Operation
from lakewarden.catalog.report import ScopeReport
from lakewarden.catalog.target import ScopeTarget
from lakewarden.errors import Conflict, Corrupt
from lakewarden.tables.fanout import fault_of
from lakewarden.tables.warehouse import Warehouse, cold_tables, find_table


def named_tables(catalog: Catalog, names: Sequence[str]) -> list[Table]:
    """The named tables, which need a cold tier and an active engine; all of the warehouse's that have both where none is named.

    Raises:
        NotFound: a name is not a table's.
        Unsupported: a name is a STREAM table's.
        FailedPrecondition: the engine of a named table is disabled.
    """
    found = [find_table(catalog, TableName.parse(name)) for name in names]
    for table in found:
        require(table, "cold tier", "flushes, maintenance, versions")
        require_active(catalog, table.name.namespace)
    return found if names else [table for table in cold_tables(catalog) if is_active(catalog, table.name)]


def left_out(warehouse: Warehouse, catalog: Catalog, operation: Operation, tables: Iterable[Table]) -> list[ScopeReport]:
    """A report for each of these tables whose engine is disabled: `skipped`, with the reason."""
    idle = [table for table in tables if not is_active(catalog, table.name)]
    places = [warehouse.location(catalog.storages[table.options.storage_id]) for table in idle]
    return [
        ScopeReport(Scope(table.name), operation, "skipped", place, reason=DISABLED)
        for table, place in zip(idle, places, strict=True)
    ]


def scopes_of(warehouse: Warehouse, table: Table, user: str | None) -> list[Scope]:
    """The scopes of a table that were ever flushed; the one of `user` where it is given.

    Raises:
        InvalidArgument: a user for a SHARED table.
    """
    if table.type == "SHARED" or user is not None:
        return [Scope(table.name, user)]
    return [Scope(table.name, one) for one in sorted(warehouse.registry.users(table.id))]


def targets_of(warehouse: Warehouse, catalog: Catalog, names: Sequence[str], user: str | None) -> list[ScopeTarget]:
    scopes = [scope for table in named_tables(catalog, names) for scope in scopes_of(warehouse, table, user)]
    return [warehouse.target(catalog, scope) for scope in scopes]


def readable_targets(
    warehouse: Warehouse, catalog: Catalog, names: Sequence[str], user: str | None
) -> tuple[list[ScopeTarget], list[tuple[ScopeTarget, Corrupt]]]:
    """The same of the tables whose floors can be read; and the scopes of the others, each with the reason.

    Raises as `targets_of`, except for a floor.
    """
    found: list[ScopeTarget] = []
    unread: list[tuple[ScopeTarget, Corrupt]] = []
    for table in named_tables(catalog, names):
        scopes = scopes_of(warehouse, table, user)
        try:
            found += [warehouse.target(catalog, scope) for scope in scopes]
        except Corrupt as error:
            unread += [(warehouse.bare_target(catalog, table, scope.user), error) for scope in scopes]
    return found, unread


def table_location(warehouse: Warehouse, catalog: Catalog, name: TableName, storage_id: str) -> Location:
    """Where the table lies, or would, on that storage."""
    storage = catalog.storages[storage_id]
    return Location(table_place(storage, find_table(catalog, name), warehouse.base), storage.connection)


def check_none_failed(reports: Iterable[ScopeReport], what: str, then: str) -> None:
    """Raises Conflict: some of the scopes failed; `what` was not done, and `then` is what to do."""
    if failed := [report for report in reports if report.fault]:
        raise Conflict(f"{len(failed)} scopes {what}: {failed[0].scope}: {failed[0].reason}; {then}")


def explained(warehouse: Warehouse, catalog: Catalog, reports: Sequence[ScopeReport]) -> list[ScopeReport]:
    """The reports of work that began with this catalog. What was CORRUPT by it is a conflict where the table was altered since:
    another process may have given the scope columns that the catalog lacks, and nothing has to be repaired.
    """
    corrupt = {report.scope for report in reports if report.fault is not None and report.fault.code == Corrupt.code}
    if not corrupt:
        return list(reports)
    schemas = {table.log_id: table.schemas for table in warehouse.catalog.read().tables.values()}
    altered = {one.name for one in catalog.tables.values() if schemas.get(one.log_id, one.schemas) != one.schemas}
    return [_altered(one) if one.scope in corrupt and one.scope.table in altered else one for one in reports]


def _altered(report: ScopeReport) -> ScopeReport:
    fault = fault_of(Conflict(f"{report.scope.table} was altered meanwhile, and what its columns are is read first: try again"))
    return replace(report, reason=fault.message, fault=fault)
