"""Creates tables: checks the whole declaration, then changes the catalog once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lakewarden.catalog.changes import add_table
from lakewarden.catalog.model import Column, Table, TableType
from lakewarden.catalog.options import check_type, parse_options
from lakewarden.catalog.schema import declare
from lakewarden.scope import TableName
from lakewarden.warehouse import Warehouse


def make_table(
    warehouse: Warehouse,
    name: TableName,
    type: TableType,
    columns: Sequence[Column],
    primary_key: Sequence[str],
    options: Mapping[str, object],
) -> Table:
    """Raises:
    InvalidArgument, AlreadyExists, NotFound, InUse: nothing was created.
    """
    checked = check_type(type)
    table = Table(
        id=warehouse.new_id(),
        name=name,
        type=checked,
        options=parse_options(checked, options),
        schemas=(declare(columns, primary_key, append_only=checked == "STREAM"),),
        log_id=warehouse.new_id(),
        created_at=warehouse.clock(),
    )
    warehouse.catalog.change(lambda catalog: add_table(catalog, table, warehouse.base))
    return table
