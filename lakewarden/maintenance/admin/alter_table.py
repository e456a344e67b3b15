"""Alters a table: one change of the catalog, after checking the rows where the change depends on them."""

from __future__ import annotations

from functools import partial

from lakewarden.base.scope import Scope, TableName
from lakewarden.catalog.changes.objects import check_still, replace_table
from lakewarden.catalog.dynamic_declaration import check_no_dynamic_option
from lakewarden.catalog.evolution import Alteration, SetNullable, SetOptions, altered, tightens
from lakewarden.catalog.model import Catalog, Table
from lakewarden.delta.scope import open_scope
from lakewarden.errors import ConstraintViolation, InUse
from lakewarden.log.stream import read_stream
from lakewarden.maintenance.scopes import scopes_of
from lakewarden.tables.direct.barrier import pass_direct_writes
from lakewarden.tables.strong_read import read_strong
from lakewarden.tables.warehouse import Warehouse, find_table


def alter(warehouse: Warehouse, name: TableName, change: Alteration) -> Table:
    """Returns when no row of the columns before the change can come any more.

    Raises:
        NotFound: no such table, or no such storage.
        InvalidArgument, AlreadyExists: as `catalog.evolution.altered`; nothing was changed.
        ConstraintViolation: NOT NULL, and a row has NULL there.
        InUse: another storage, or another USE_USER_STORAGE, while the table has scopes; or its place there is another table's.
    """
    column: str | None = None

    def step(catalog: Catalog) -> Catalog:
        nonlocal column
        before = find_table(catalog, name)
        if before.dynamic is not None and isinstance(change, SetOptions):
            check_no_dynamic_option(change.options)
        after = altered(before, change, warehouse.clock())
        changed = replace_table(catalog, after, warehouse.base)
        column = tightens(before, change)
        if column is not None:
            _check_no_null(warehouse, catalog, before, column)
        moved = after.options.storage_id != before.options.storage_id
        if moved or after.options.use_user_storage != before.options.use_user_storage:
            check_still(before)
            _check_not_cold(warehouse, catalog, before)
        return changed

    table = find_table(warehouse.catalog.change(step), name)
    warehouse.log(table).require_columns(table.schema.version)
    if column is not None:
        _check_between(warehouse, table, column)
    return table


def _check_between(warehouse: Warehouse, table: Table, column: str) -> None:
    """Looks again, at what was written while the column became NOT NULL; with a NULL there, it is nullable again."""
    catalog = warehouse.catalog.read()
    if table.type == "SHARED":
        pass_direct_writes(warehouse, warehouse.target_of(catalog, table, None))
    try:
        _check_no_null(warehouse, catalog, table, column)
    except ConstraintViolation:
        undo = SetNullable(column, nullable=True)
        undone = warehouse.catalog.change(
            lambda now: replace_table(now, altered(find_table(now, table.name), undo, warehouse.clock()), warehouse.base)
        )
        warehouse.log(table).require_columns(find_table(undone, table.name).schema.version)
        raise


def _check_no_null(warehouse: Warehouse, catalog: Catalog, table: Table, column: str) -> None:
    """Checks every row, hot and cold."""
    for scope in _scopes_with_rows(warehouse, table):
        if table.schema.append_only:
            rows = read_stream(warehouse.log(table), table, scope.user or "", warehouse.clock())
        else:
            rows = read_strong(partial(warehouse.target, catalog, scope), warehouse.log(table))
        if rows.column(column).null_count:
            raise ConstraintViolation(
                f"column {column!r} of {table.name} cannot become NOT NULL: a row of {scope} has NULL there"
            )


def _scopes_with_rows(warehouse: Warehouse, table: Table) -> list[Scope]:
    hot = warehouse.log(table).view().pending
    return sorted({*scopes_of(warehouse, table, None), *(Scope(table.name, user or None) for user in hot)}, key=str)


def _check_not_cold(warehouse: Warehouse, catalog: Catalog, table: Table) -> None:
    cold = [scope for scope in scopes_of(warehouse, table, None) if open_scope(warehouse.target(catalog, scope))]
    if cold:
        raise InUse(
            f"{table.name} has {len(cold)} scope(s) with cold data, such as {cold[0]}; an option moves none: move the table"
            f" (lakewarden move {table.name} --to STORAGE, or STORAGE MOVE TABLE {table.name} TO STORAGE)"
        )
