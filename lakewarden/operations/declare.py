"""Making tables and storages: the declaration is checked whole, then one change of the catalog makes it so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from lakewarden.catalog.changes import add_storage, add_table
from lakewarden.catalog.model import Column, Storage, StorageType, Table, TableType
from lakewarden.catalog.names import check_storage_id
from lakewarden.catalog.options import check_type, parse_options
from lakewarden.catalog.schema import declare
from lakewarden.errors import InvalidArgument
from lakewarden.scope import TableName
from lakewarden.storage.location import canonical
from lakewarden.storage.open import open_store
from lakewarden.storage.owner import claim
from lakewarden.storage.paths import check_template
from lakewarden.storage.probe import probe
from lakewarden.warehouse import Warehouse

_STORAGE_TYPES: dict[str, StorageType] = {
    "filesystem": "filesystem",
    "local": "filesystem",
    "s3": "s3",
    "gcs": "gcs",
    "azure": "azure",
}


def make_table(
    warehouse: Warehouse,
    name: TableName,
    type: TableType,
    columns: Sequence[Column],
    primary_key: Sequence[str],
    options: Mapping[str, object],
) -> Table:
    """Raises:
    InvalidArgument, AlreadyExists, NotFound, InUse: nothing was made.
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


def new_storage(
    id: str, type: str, base: str, user_template: str, shared_template: str, name: str, description: str, now: datetime
) -> Storage:
    """A checked storage that nobody has made yet.

    Raises:
        InvalidArgument: the id, type, base or a template is none.
    """
    kind = _STORAGE_TYPES.get(type.lower())
    if kind is None:
        raise InvalidArgument(f"unknown storage type {type!r}; the types are {', '.join(_STORAGE_TYPES)}")
    if not base:
        raise InvalidArgument(f"storage {id!r} needs a base: a directory or a URI")
    check_storage_id(id)
    return Storage(
        id,
        kind,
        canonical(base),
        check_template("USER", user_template),
        check_template("SHARED", shared_template),
        name=name or id,
        description=description,
        created_at=now,
    )


def make_storage(warehouse: Warehouse, storage: Storage) -> Storage:
    """Tries the place, claims it for this warehouse, and makes the storage.

    Raises:
        AlreadyExists, InUse, StorageRefused, StorageUnavailable: nothing was made.
    """
    add_storage(warehouse.catalog.read(), storage)  # what is wrong with it is said before anything is written there
    store = open_store(warehouse.base(storage))
    found = replace(storage, folds_case=probe(store, warehouse.new_id).folds_case)
    claim(store, warehouse.id)
    warehouse.catalog.change(lambda catalog: add_storage(catalog, found))
    return found
