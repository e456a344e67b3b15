"""Creates tables: checks the whole declaration, changes the catalog once, then begins the Delta table where that is due."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lakewarden.catalog.changes import add_table
from lakewarden.catalog.model import Column, Table, TableType
from lakewarden.catalog.options import check_type, parse_options
from lakewarden.catalog.schema import declare
from lakewarden.operations.beginning import begins_at_once, begun
from lakewarden.scope import TableName
from lakewarden.warehouse import Warehouse


def make_table(
    warehouse: Warehouse,
    name: TableName,
    type: TableType,
    columns: Sequence[Column],
    primary_key: Sequence[str],
    options: Mapping[str, object],
    partition_by: Sequence[str] = (),
    *,
    at_once: bool = False,
) -> Table:
    """Args:
        at_once: begins the Delta table of a SHARED table too, whatever table it is.

    Raises:
        InvalidArgument, AlreadyExists, NotFound, InUse: nothing was created.
        StorageUnavailable, StorageRefused, Conflict: the table was created, and its first use begins its Delta table.
    """
    return add_new(warehouse, new_table(warehouse, name, type, columns, primary_key, options, partition_by), at_once=at_once)


def new_table(
    warehouse: Warehouse,
    name: TableName,
    type: TableType,
    columns: Sequence[Column],
    primary_key: Sequence[str],
    options: Mapping[str, object],
    partition_by: Sequence[str] = (),
) -> Table:
    """The table that such a declaration makes, which is in no catalog yet.

    Raises:
        InvalidArgument, Unsupported: the declaration is not valid.
    """
    checked = check_type(type)
    return Table(
        id=warehouse.new_id(),
        name=name,
        type=checked,
        options=parse_options(checked, options),
        schemas=(declare(columns, primary_key, checked, partition_by),),
        log_id=warehouse.new_id(),
        created_at=warehouse.clock(),
    )


def add_new(warehouse: Warehouse, table: Table, *, at_once: bool = False) -> Table:
    """Raises as `make_table`."""
    catalog = warehouse.catalog.change(lambda catalog: add_table(catalog, table, warehouse.base))
    if begins_at_once(table) or (at_once and table.type == "SHARED"):
        begun(warehouse, catalog, table)
    return table
