"""Creates dynamic tables: options of the session and of the statement, their storage, and the table once its place is begun."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from lakewarden.base.scope import TableName
from lakewarden.catalog.buckets import bucket_named
from lakewarden.catalog.changes.objects import add_table
from lakewarden.catalog.dynamic_declaration import FILE_PATH, PREFIX, divided_options, enriched, parse_dynamic
from lakewarden.catalog.model import Catalog, Column, Table
from lakewarden.catalog.options import parse_options
from lakewarden.catalog.schema import declare
from lakewarden.catalog.state.founding import INDEXED_FORMAT
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.lifecycle.states import has_begun
from lakewarden.delta.scope import open_place, open_scope
from lakewarden.errors import AlreadyExists, InvalidArgument, Unsupported
from lakewarden.log.position import NOTHING
from lakewarden.maintenance.admin.create_table import appearing
from lakewarden.storage.location import canonical
from lakewarden.tables.dynamic import check_topic, make_table_topic, with_topic
from lakewarden.tables.warehouse import Warehouse


@dataclass(frozen=True)
class DynamicDeclaration:
    """A dynamic table as it was declared."""

    name: TableName
    columns: Sequence[Column]
    primary_key: Sequence[str] = ()
    partition_by: Sequence[str] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    session: Mapping[str, str] = field(default_factory=dict)
    """The options of the session that creates it, without their prefix."""


def make_dynamic_table(warehouse: Warehouse, declared: DynamicDeclaration, *, adopt: bool = False) -> Table:
    """Creates the table, which other callers see once its Delta table is begun.

    Args:
        adopt: takes over a Delta table that is at its place without being in the catalog.

    Raises:
        InvalidArgument, AlreadyExists, NotFound, InUse: nothing was created.
        StorageUnavailable, StorageRefused, Conflict: it does not appear; create it again.
    """
    catalog = warehouse.catalog.read()
    table = with_topic(new_dynamic_table(warehouse, catalog, declared))
    added = add_table(catalog, table, warehouse.base)  # raises what the name is refused for, before the place is looked at
    taken_over = _check_place(warehouse.bare_target(added, table, None), adopt=adopt)
    check_topic(table)
    with appearing(warehouse, table):
        make_table_topic(table, None if taken_over else NOTHING)
    return table


def new_dynamic_table(warehouse: Warehouse, catalog: Catalog, declared: DynamicDeclaration) -> Table:
    """The table that such a declaration makes, which is in no catalog yet.

    Raises:
        InvalidArgument: the declaration is not valid.
    """
    own, native = divided_options(declared.options)
    schema = declare(declared.columns, declared.primary_key, "SHARED", declared.partition_by)
    options = enriched(declared.session, own)
    dynamic = parse_dynamic(options, schema)
    upper = {key.strip().upper(): value for key, value in native.items()}
    has_staged_batches = warehouse.format >= INDEXED_FORMAT  # in which the log takes many rows with those before them
    if dynamic.file_path is not None:
        upper["STORAGE_ID"] = _storage_at(warehouse, catalog, dynamic.file_path, upper.get("STORAGE_ID"))
    return Table(
        id=warehouse.new_id(),
        name=declared.name,
        type="SHARED",
        options=parse_options("SHARED", {"ON_DUPLICATE": "replace", **upper}),
        schemas=(replace(schema, keeps_before=has_staged_batches and dynamic.keeps_before(keyed=schema.keyed)),),
        log_id=warehouse.new_id(),
        created_at=warehouse.clock(),
        dynamic=dynamic,
    )


def _storage_at(warehouse: Warehouse, catalog: Catalog, path: str, named: str | None) -> str:
    """Raises InvalidArgument: the path is not the base of a storage, or that of another one than STORAGE_ID names."""
    wanted = canonical(path)
    found = next((one.id for one in catalog.storages.values() if canonical(warehouse.base(one)) == wanted), None)
    if found is None or named not in (None, found):
        bases = ", ".join(f"{one.id} ({warehouse.base(one)})" for one in catalog.storages.values())
        which = "" if named is None else f" named {named!r}"
        raise InvalidArgument(
            f"{FILE_PATH} {path!r} is the root of no storage{which}; the storages are {bases}."
            f" Create one there, then SET '{PREFIX}{FILE_PATH}' = '…', or write WITH ('{FILE_PATH}' = '…')"
        )
    return found


def _check_place(target: ScopeTarget, *, adopt: bool) -> bool:
    """Whether a Delta table is there, which may be taken over.

    Raises:
    AlreadyExists: a Delta table is there.
    Corrupt, Unsupported: with `adopt`, it is one of another table of ours, or has other columns or buckets.
    """
    there = open_scope(target) if adopt else open_place(target)
    if there is None or not has_begun(there, target):
        return False
    if adopt:
        there.schema_version(target.schemas)
        if divided := next((file.path for file in there.files() if bucket_named(file.path) is not None), None):
            raise Unsupported(f"{target.uri}: {divided} is divided by the buckets of another table, so it cannot be taken over")
        return True
    raise AlreadyExists(
        f"{target.uri} has a Delta table that is in no catalog: drop it there, or take it over"
        f" by CREATE DYNAMIC TABLE IF NOT EXISTS {target.scope.table}"
    )
