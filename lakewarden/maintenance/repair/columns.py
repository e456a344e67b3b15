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
from lakewarden.catalog.model import Catalog, SchemaColumn, Storage, Table, TableSchema
from lakewarden.delta.parquet.schema import SEQ, LiveColumn, is_ours, version_of
from lakewarden.delta.replay.log_objects import LOG
from lakewarden.delta.scope import copied_from, last_flush, open_place
from lakewarden.delta.table import ScopeTable
from lakewarden.errors import Corrupt, InvalidArgument, Unsupported
from lakewarden.log.position import NOTHING
from lakewarden.maintenance.repair.report import RepairReport
from lakewarden.maintenance.scopes import scopes_of
from lakewarden.storage.open import open_store
from lakewarden.storage.paths import table_prefix
from lakewarden.tables.warehouse import Warehouse, find_table

# Finds scopes that have a table but are not in the list of scopes, as with a state from an older backup.
#
# It lists the table's place for their directories; their commits name the user.


def unlisted_users(warehouse: Warehouse, catalog: Catalog, table: Table) -> frozenset[str]:
    """The users of a table who have a scope on its storage and are not in the registry."""
    if table.type == "SHARED":
        return frozenset()
    known = warehouse.registry.users(table.id)
    storage = catalog.storages[table.options.storage_id]
    # Directories of registered users are not opened: of a million scopes only the strays cost a read.
    listed = {warehouse.location_of(catalog, table, user, storage.id).uri for user in known}
    return frozenset(user for user in _owners(warehouse, catalog, table, storage, listed) if user not in known)


def _owners(warehouse: Warehouse, catalog: Catalog, table: Table, storage: Storage, listed: set[str]) -> Iterator[str]:
    base = warehouse.location(storage)
    prefix = table_prefix(storage.user_template, table.name, storage.folds_case)
    paths = {found.key.partition(f"/{LOG}/")[0] for found in open_store(base).list(prefix) if f"/{LOG}/" in found.key}
    for path in sorted(paths):
        location = base.below(path)
        if location.uri in listed:
            continue
        try:
            found = ScopeTable.open(location)
        except Corrupt:
            continue
        stamp = None if found is None else last_flush(found)
        if stamp is None or stamp.user is None:
            continue
        own = warehouse.target_on(storage.id, catalog, table, stamp.user)
        # The stamp says who; it counts only where the same user of this table would lie: a copied directory says the same.
        if own.app_id == stamp.app_id and own.uri == location.uri:
            yield stamp.user


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
