"""Creates tables: checks the whole declaration, changes the catalog once, then begins the Delta table where that is due."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from lakewarden.base.scope import TableName
from lakewarden.catalog.changes.leases import under
from lakewarden.catalog.changes.objects import add_table, show_table
from lakewarden.catalog.dynamic_declaration import check_outside
from lakewarden.catalog.model import Catalog, Column, Table, TableType
from lakewarden.catalog.options import check_type, parse_options
from lakewarden.catalog.schema import declare
from lakewarden.delta.commit_log.committing import Committer
from lakewarden.delta.lifecycle.states import begin_table
from lakewarden.delta.table import ScopeTable
from lakewarden.storage.steps import alone
from lakewarden.tables.warehouse import Warehouse

# Begins the Delta table of a SHARED table at version 0: when it is created, or by the first direct write after a crash.
# Adds columns to it when they are declared, and not with the next rows.


def begins_at_once(table: Table) -> bool:
    """Whether the Delta table is begun with the table itself, and not by the first flush."""
    return table.type == "SHARED" and bool(table.dynamic or table.schema.partition_by or not table.schema.keyed)


def begun(warehouse: Warehouse, catalog: Catalog, table: Table, *, columns: bool = False) -> ScopeTable:
    """Opens the Delta table of a SHARED table, which is begun where it does not exist. Safe to call at any time.

    Args:
        columns: also adds those that were declared since its newest version, where no file has to be written again for that;
            otherwise its next flush or direct write does.

    Raises:
        Conflict, Corrupt: as `begin_table`.
        StorageUnavailable, StorageRefused: its storage is away.
    """
    by = Committer(f"{'AT' if columns else 'CT'}-{warehouse.new_id()[:8]}", warehouse.clock(), warehouse.clock)
    warehouse.check_open(catalog, table, None)
    return alone(begin_table(warehouse.target_of(catalog, table, None), by, columns=columns))


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
    check_outside(name, options)
    return Table(
        id=warehouse.new_id(),
        name=name,
        type=checked,
        options=parse_options(checked, options),
        schemas=(declare(columns, primary_key, checked, partition_by),),
        log_id=warehouse.new_id(),
        created_at=warehouse.clock(),
    )


def make_table(warehouse: Warehouse, table: Table, *, at_once: bool = False) -> Table:
    """Args:
        table: as `new_table` made it.
        at_once: begins the Delta table of a SHARED table too, whatever table it is.

    Raises:
        InvalidArgument, AlreadyExists, NotFound, InUse: nothing was created.
        StorageUnavailable, StorageRefused, Conflict: the table was created, and its first use begins its Delta table.
    """
    catalog = warehouse.catalog.change(lambda catalog: add_table(catalog, table, warehouse.base))
    if begins_at_once(table) or (at_once and table.type == "SHARED"):
        begun(warehouse, catalog, table)
    return table


@contextmanager
def appearing(warehouse: Warehouse, table: Table) -> Iterator[None]:
    """Creates a table that other callers see only once the block, which fills it, is done.

    Until then the catalog has it as one whose drop has begun: what a crash, or an error in the block, leaves is removed by
    whoever drops it, or takes its name next (`maintenance.drop.end_drop`).

    Raises as `make_table`; and Conflict: another process holds the table's lock, or took it over.
    """
    with warehouse.locks.create().hold(table.name.namespace, table.name.name) as lease:
        make_table(warehouse, replace(table, dropping=True))
        yield
        warehouse.catalog.change(under(lease, lambda catalog: show_table(catalog, table)))
