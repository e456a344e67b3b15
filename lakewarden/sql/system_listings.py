"""The catalog's content as rows, for `system.*` and for the SHOW statements that every role may use."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass

import pyarrow as pa

from lakewarden.base.scope import TableName
from lakewarden.catalog.access import Principal, may
from lakewarden.catalog.model import Catalog, Storage, Table, TableSchema
from lakewarden.catalog.options import shown_options
from lakewarden.catalog.passwords import REDACTED
from lakewarden.sql.context import Context
from lakewarden.sql.results import Columns, Row
from lakewarden.tables.warehouse import live_tables

TEXT: pa.DataType = pa.string()
WHOLE: pa.DataType = pa.int64()
FLAG: pa.DataType = pa.bool_()
MOMENT: pa.DataType = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True)
class SystemListing:
    """A relation that does not come from a query. A row that lacks a column has NULL there; what is not a column is left out."""

    columns: Columns
    rows: Callable[[Context], Iterable[Row]]


def texts(*names: str) -> dict[str, pa.DataType]:
    return dict.fromkeys(names, TEXT)


def _namespaces(context: Context) -> Iterator[Row]:
    catalog = context.catalog
    counts = tables_by_namespace(catalog)
    for one in catalog.namespaces.values():
        yield asdict(one) | {"namespace_id": one.name, "table_count": counts[one.name]}


def tables_by_namespace(catalog: Catalog) -> Counter[str]:
    """How many tables each namespace has, those of pipelines without a schema yet among them."""
    return Counter(table.name.namespace for table in (*live_tables(catalog), *catalog.blanks.values()))


def storage_row(one: Storage) -> Row:
    connection = one.connection
    config = {key: value for key, value in asdict(connection).items() if key != "credentials" and value not in ("", None)}
    return {
        "storage_id": one.id,
        "storage_name": one.name,
        "description": one.description,
        "storage_type": one.type,
        "base_directory": one.base,
        "shared_tables_template": one.shared_template,
        "user_tables_template": one.user_template,
        "credentials": REDACTED if connection.credentials else None,
        "config_json": json.dumps(config),
        "created_at": one.created_at,
    }


def _users(context: Context) -> Iterator[Row]:
    for one in context.catalog.users.values():
        secrets = {"password_hash": one.password_hash, "auth_data": one.auth_data}
        yield asdict(one) | {name: REDACTED if secret else None for name, secret in secrets.items()}


def _tables(context: Context) -> Iterator[Row]:
    catalog = context.catalog
    for table in live_tables(catalog):
        yield _table_row(table) | {"version": table.schema.version}
    yield from map(_table_row, catalog.blanks.values())
    for name, view in catalog.views.items():
        yield name_row(name) | {"table_type": "VIEW", "created_at": view.created_at}


def _table_row(table: Table) -> Row:
    return name_row(table.name) | {
        "table_type": table.type,
        "storage_id": table.options.storage_id,
        "options": json.dumps(shown_options(table.type, table.options)),
        "created_at": table.created_at,
    }


def name_row(name: TableName) -> Row:
    return {"namespace_id": name.namespace, "table_name": name.name}


def _columns(context: Context) -> Iterator[Row]:
    for table in live_tables(context.catalog):
        yield from (name_row(table.name) | row for row in column_rows(table.schema))


def column_rows(schema: TableSchema) -> Iterator[Row]:
    for ordinal, column in enumerate(schema.shown, 1):
        yield {
            "column_id": column.id,
            "ordinal": ordinal,
            "column_name": column.name,
            "data_type": str(column.type),
            "is_nullable": column.nullable,
            "is_primary_key": column.name in schema.primary_key,
            "default": column.default,
            "partition_index": schema.partition_by.index(column.name) if column.name in schema.partition_by else None,
        }


def _schemas(context: Context) -> Iterator[Row]:
    for table in live_tables(context.catalog):
        for schema in table.schemas:
            yield _table_row(table) | {
                "table_id": f"{table.name.namespace}:{table.name.name}",
                "schema_version": schema.version,
                "is_latest": schema is table.schema,
                "columns": json.dumps(list(column_rows(schema))),
                "access_level": table.access_level if table.type == "SHARED" else None,
                "use_user_storage": table.options.use_user_storage,
            }


COLUMN_COLUMNS: dict[str, pa.DataType] = (
    {"column_id": WHOLE, "ordinal": WHOLE} | texts("column_name", "data_type")
    | {"is_nullable": FLAG, "is_primary_key": FLAG, "default": TEXT}
)  # fmt: skip
PARTITION_COLUMNS: dict[str, pa.DataType] = {"partition_index": WHOLE}
"""Of a partition column, its place among them from 0; DESCRIBE shows it of partitioned tables only."""
_STORAGE = ("storage_id", "storage_name", "description", "storage_type", "base_directory", "shared_tables_template")
_USER = ("user_id", "password_hash", "role", "email", "auth_type", "auth_data", "storage_mode", "storage_id")
_TABLE = texts("namespace_id", "table_name", "table_type", "storage_id", "options")
_SCHEMA = {"schema_version": WHOLE, "is_latest": FLAG, **texts("columns", "options", "access_level", "storage_id")}

LISTINGS: dict[str, SystemListing] = {
    "namespaces": SystemListing(
        texts("namespace_id", "name", "description") | {"created_at": MOMENT, "table_count": WHOLE}, _namespaces
    ),
    "storages": SystemListing(
        texts(*_STORAGE, "user_tables_template", "credentials", "config_json") | {"created_at": MOMENT},
        lambda context: map(storage_row, context.catalog.storages.values()),
    ),
    "users": SystemListing(texts(*_USER) | dict.fromkeys(("created_at", "updated_at", "deleted_at"), MOMENT), _users),
    "tables": SystemListing(_TABLE | {"version": WHOLE, "created_at": MOMENT}, _tables),
    "columns": SystemListing(texts("namespace_id", "table_name") | COLUMN_COLUMNS | PARTITION_COLUMNS, _columns),
    "schemas": SystemListing(
        texts("table_id", "namespace_id", "table_name", "table_type")
        | _SCHEMA
        | {"use_user_storage": FLAG, "created_at": MOMENT},
        _schemas,
    ),
}
"""By the name in `system`."""


# What a session may see of the warehouse: the tables and views that it may read.
@dataclass(frozen=True)
class VisibleObjects:
    """`version` is the catalog's."""

    version: int
    principal: Principal
    namespaces: tuple[str, ...]
    namespace: str | None
    """The one in use."""
    tables: tuple[Table, ...]
    views: tuple[TableName, ...]
    """Whether their queries may be run is decided when they are."""


def seen(context: Context) -> VisibleObjects:
    catalog = context.catalog
    return VisibleObjects(
        catalog.version,
        context.principal,
        tuple(sorted(catalog.namespaces)),
        context.namespace,
        tuple(table for table in live_tables(catalog) if may(context.principal, "read", table)),
        tuple(catalog.views),
    )
