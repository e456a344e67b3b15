"""Columns that are younger than the state of a warehouse, which came from a backup: they come back into the catalog.

Each scope's Delta table says which columns it has, with the ids and the types that the catalog gave them (delta/parquet/schema).
What no schema version of the catalog matches becomes one: of the scopes that differ, the one with the oldest watermark first.
What Delta does not say stays as it was: a default of before, and NULL where NOT NULL is not known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from lakewarden.base.scope import Scope
from lakewarden.catalog.access import can
from lakewarden.catalog.changes.objects import replace_table
from lakewarden.catalog.column_types import ColumnType
from lakewarden.catalog.column_values import canonical_default, initial_of
from lakewarden.catalog.model import Catalog, SchemaColumn, Table, TableSchema
from lakewarden.delta.parquet.schema import SEQ, LiveColumn, is_ours, version_of
from lakewarden.delta.scope import copied_from, open_place
from lakewarden.errors import Corrupt, InvalidArgument, Unsupported
from lakewarden.log.position import NOTHING
from lakewarden.maintenance.repair.report import RepairReport
from lakewarden.maintenance.repair.strays import unlisted_users
from lakewarden.maintenance.scopes import scopes_of
from lakewarden.tables.warehouse import Warehouse, find_table


def with_younger_columns(
    warehouse: Warehouse, catalog: Catalog, table: Table, user: str | None, *, dry_run: bool
) -> tuple[Catalog, list[RepairReport]]:
    """Returns the catalog with the columns that the table's scopes have, and a report where it lacked some.

    Raises:
        StorageUnavailable: a storage is away.
    """
    if not can(table.type, "cold tier"):
        return catalog, []
    now = warehouse.clock()
    # By watermark: of scopes that differ, the one that was flushed last has the newest columns.
    found = [columns for _, columns in sorted(_younger(warehouse, catalog, table, user), key=lambda pair: pair[0])]
    after = table
    for columns in found:
        made = _schema(after.schema, columns, now)
        if made is not None and not any(_alike(made, each) for each in after.schemas):
            after = replace(after, schemas=(*after.schemas, made))
    if after == table:
        return catalog, []
    planned = RepairReport(Scope(table.name, None), "planned", "columns", _reason(table.schema, after.schema))
    if dry_run:
        return replace_table(catalog, after, warehouse.base), [planned]

    def step(there: Catalog) -> Catalog:
        if find_table(there, table.name).schemas != table.schemas:
            return there  # altered meanwhile: the next repair looks again
        return replace_table(there, replace(find_table(there, table.name), schemas=after.schemas), warehouse.base)

    return warehouse.catalog.change(step), [planned.ended("done")]


def _younger(
    warehouse: Warehouse, catalog: Catalog, table: Table, user: str | None
) -> Iterator[tuple[int, tuple[LiveColumn, ...]]]:
    """The watermarks and the columns of scopes that no version of the catalog matches, though they are ours."""
    users = {scope.user for scope in scopes_of(warehouse, table, user)}
    if user is None:
        # The list of scopes came from the backup too.
        users |= set(unlisted_users(warehouse, catalog, table))
    for one in users:
        target = warehouse.bare_target(catalog, table, one)
        try:
            place = open_place(target)
            # Another scope's directory says nothing of this table's columns.
            if place is None or place.is_swept or copied_from(place, target):
                continue
        except (Corrupt, Unsupported):
            continue  # the scope's own repair reports it
        if is_ours(place.columns) and version_of(place.head.schema, table.schemas) is None:
            mark = place.watermark(target.app_id)
            yield NOTHING if mark is None else mark, place.columns


def _schema(last: TableSchema, columns: Sequence[LiveColumn], now: datetime) -> TableSchema | None:
    """The version after the last one that has these columns; None where that is not possible."""
    made = tuple(_column(last, column, now) for column in columns if column.name != SEQ)
    names = {column.id: column.name for column in made if column is not None}
    ids = {column.name: column.id for column in last.columns}
    # By id: a key column may have been renamed since the backup.
    key = tuple(names.get(ids[name], "") for name in last.primary_key)
    if None in made or not all(key) or not set(last.partition_by) <= set(names.values()):
        return None
    return replace(
        last, version=last.version + 1, columns=tuple(column for column in made if column is not None), primary_key=key
    )


def _column(last: TableSchema, column: LiveColumn, now: datetime) -> SchemaColumn | None:
    assert column.id is not None, "columns of ours have ids"
    try:
        kind = ColumnType.parse(column.declared)
        default = None if column.default is None else canonical_default(column.default, kind)
    except InvalidArgument:
        return None  # of a later release
    known = next((each for each in last.columns if each.id == column.id), None)
    if known is not None:
        tighter = column.not_null and known.nullable
        flags = (False, True) if tighter else (known.nullable, known.null_before)
        return replace(
            known, name=column.name, type=kind, default=default or known.default, nullable=flags[0], null_before=flags[1]
        )
    if not column.not_null:
        return SchemaColumn(column.id, column.name, kind, nullable=column.nullable, default=default)
    initial = None if default is None else initial_of(default, kind, now)
    return SchemaColumn(column.id, column.name, kind, nullable=False, default=default, null_before=True, initial=initial)


def _alike(one: TableSchema, other: TableSchema) -> bool:
    return (one.columns, one.primary_key) == (other.columns, other.primary_key)


def _reason(before: TableSchema, after: TableSchema) -> str:
    """What came back, what was renamed or got a wider type, and what was dropped since the backup."""
    old, new = ({column.id: column for column in schema.columns} for schema in (before, after))
    came = [f"{column.name} {column.type} came back" for id_, column in new.items() if id_ not in old]
    named = [f"{old[id_].name} is {column.name}" for id_, column in new.items() if id_ in old and old[id_].name != column.name]
    wider = [f"{column.name} is {column.type}" for id_, column in new.items() if id_ in old and old[id_].type != column.type]
    gone = [f"{column.name} is dropped" for id_, column in old.items() if id_ not in new]
    return f"the columns of the data are younger than the state: {', '.join([*came, *named, *wider, *gone])}"
