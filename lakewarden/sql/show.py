"""Statements that tell what is there. Whatever tells of rows tells of the session's own scope."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pyarrow as pa

from lakewarden.access.gate import may
from lakewarden.catalog.model import Table, TableSchema
from lakewarden.clock import from_millis
from lakewarden.delta.table import ScopeTable
from lakewarden.errors import NotFound
from lakewarden.operations.health import health
from lakewarden.report import ScopeState
from lakewarden.scope import Scope
from lakewarden.sql import statements as of
from lakewarden.sql.context import Context
from lakewarden.sql.later import later
from lakewarden.sql.results import Rows, listing
from lakewarden.warehouse import live_tables

_TEXT: pa.DataType = pa.string()
_WHOLE: pa.DataType = pa.int64()
_FLAG: pa.DataType = pa.bool_()
_MOMENT: pa.DataType = pa.timestamp("us", tz="UTC")


def show(context: Context, statement: of.Show) -> Rows:
    match statement.what:
        case "namespaces":
            return _namespaces(context)
        case "storages":
            return _storages(context)
        case "manifest":
            return _manifest(context)
        case "export":
            raise later("SHOW EXPORT")


def _namespaces(context: Context) -> Rows:
    catalog = context.catalog()
    counts = [table.name.namespace for table in live_tables(catalog)]
    columns = {"namespace_id": _TEXT, "name": _TEXT, "created_at": _MOMENT, "table_count": _WHOLE}
    return listing(
        columns,
        [
            {"namespace_id": one.name, "name": one.name, "created_at": one.created_at, "table_count": counts.count(one.name)}
            for one in catalog.namespaces.values()
        ],
    )


def _storages(context: Context) -> Rows:
    names = ("storage_id", "storage_name", "description", "storage_type", "base_directory")
    columns = dict.fromkeys((*names, "shared_tables_template", "user_tables_template"), _TEXT) | {"created_at": _MOMENT}
    return listing(
        columns,
        [
            {
                "storage_id": one.id,
                "storage_name": one.name,
                "description": one.description,
                "storage_type": one.type,
                "base_directory": one.base,
                "shared_tables_template": one.shared_template,
                "user_tables_template": one.user_template,
                "created_at": one.created_at,
            }
            for one in context.catalog().storages.values()
        ],
    )


def _manifest(context: Context) -> Rows:
    """What lies in the cold tier of every table that the session may read."""
    columns = dict.fromkeys(("namespace_id", "table_name", "scope"), _TEXT)
    numbers = dict.fromkeys(("delta_version", "row_count", "file_count", "size_bytes", "last_sequence_number"), _WHOLE)
    rows: list[dict[str, object]] = []
    for table in live_tables(context.catalog()):
        state = _state(context, table) if may(context.session, "read", table) else None
        if state is not None:
            rows.append(
                {
                    "namespace_id": table.name.namespace,
                    "table_name": table.name.name,
                    "scope": context.owner(table) or "shared",
                    "delta_version": state.version,
                    "row_count": state.rows,
                    "file_count": state.files,
                    "size_bytes": state.bytes,
                    "last_sequence_number": state.last_seq,
                }
            )
    return listing(columns | numbers, rows)


def _state(context: Context, table: Table) -> ScopeState | None:
    target = context.lake.warehouse.target(context.catalog(), Scope(table.name, context.owner(table)))
    found = ScopeTable.open(target.location)
    return None if found is None else found.state(target.app_id)


def show_tables(context: Context, statement: of.ShowTables) -> Rows:
    catalog = context.catalog()
    wanted = statement.namespace or context.namespace
    if wanted is not None and wanted not in catalog.namespaces:
        raise NotFound(f"there is no namespace {wanted!r}")
    columns = dict.fromkeys(("namespace_id", "table_name", "table_type", "storage_id", "options"), _TEXT)
    rows: list[dict[str, object]] = [
        {
            "namespace_id": table.name.namespace,
            "table_name": table.name.name,
            "table_type": table.type,
            "storage_id": table.options.storage_id,
            "options": _options(table),
            "version": table.schema.version,
            "created_at": table.created_at,
        }
        for table in live_tables(catalog)
    ]
    rows += [
        {"namespace_id": name.namespace, "table_name": name.name, "table_type": "VIEW", "created_at": view.created_at}
        for name, view in catalog.views.items()
    ]
    return listing(
        columns | {"version": _WHOLE, "created_at": _MOMENT}, [row for row in rows if wanted in (None, row["namespace_id"])]
    )


def _options(table: Table) -> str:
    found = table.options
    policy = "" if found.flush_policy is None else str(found.flush_policy)
    given = {
        "FLUSH_POLICY": policy,
        "COMPRESSION": found.compression,
        "TARGET_FILE_SIZE": found.target_file_size,
        "DELETED_RETENTION_HOURS": found.retention_hours,
        "ACCESS_LEVEL": table.access_level if table.type == "SHARED" else None,
    }
    return json.dumps({key: value for key, value in given.items() if value not in (None, "")})


def show_stats(context: Context, statement: of.ShowStats) -> Rows:
    """The scope's figures, one a row."""
    table = context.table(statement.table)
    state = _state(context, table)
    hot = [one for one in context.lake.pending() if one.table == table.name and one.user == context.owner(table)]
    figures = {
        "pending_rows": sum(one.rows for one in hot),
        "pending_bytes": sum(one.bytes for one in hot),
        "rows": state.rows if state else 0,
        "files": state.files if state else 0,
        "bytes": state.bytes if state else 0,
        "delta_version": state.version if state else None,
    }
    return listing(
        {"metric_name": _TEXT, "metric_value": _WHOLE},
        [{"metric_name": name, "metric_value": value} for name, value in figures.items()],
    )


def describe(context: Context, statement: of.Describe) -> Rows:
    table = context.table(statement.table)
    columns = {"schema_version": _WHOLE} if statement.versions else {}
    columns |= {"column_id": _WHOLE, "ordinal": _WHOLE, "column_name": _TEXT, "data_type": _TEXT}
    columns |= {"is_nullable": _FLAG, "is_primary_key": _FLAG, "default": _TEXT}
    schemas = table.schemas if statement.versions else (table.schema,)
    return listing(columns, [row for schema in schemas for row in _columns(schema, versions=statement.versions)])


def _columns(schema: TableSchema, *, versions: bool) -> Iterator[dict[str, object]]:
    for ordinal, column in enumerate(schema.columns, 1):
        yield ({"schema_version": schema.version} if versions else {}) | {
            "column_id": column.id,
            "ordinal": ordinal,
            "column_name": column.name,
            "data_type": str(column.type),
            "is_nullable": column.nullable,
            "is_primary_key": column.name in schema.primary_key,
            "default": column.default,
        }


def history(context: Context, statement: of.DescribeHistory) -> Rows:
    """The commits of the session's scope, newest first."""
    table = context.table(statement.table)
    entries = context.lake.table(str(table.name)).history(user=context.owner(table), limit=statement.limit)
    columns = {"version": _WHOLE, "timestamp": _MOMENT, "operation": _TEXT, "operation_parameters": _TEXT}
    columns |= {"operation_metrics": _TEXT, "user_metadata": _TEXT, "engine_info": _TEXT, "read_version": _WHOLE}
    return listing(
        columns,
        [
            {
                "version": one.version,
                "timestamp": from_millis(int(one.timestamp)),
                "operation": one.operation,
                "operation_parameters": json.dumps(one.parameters),
                "operation_metrics": json.dumps(one.operation_metrics),
                "user_metadata": json.dumps(one.user_metadata),
                "engine_info": one.engine_info,
                "read_version": one.read_version,
            }
            for one in entries
        ],
    )


def check_storage(context: Context, statement: of.CheckStorage) -> Rows:
    """Tries the storage: writes, reads, lists and deletes an object; one row of eleven columns (kalamdb.md 1.5)."""
    columns = {"storage_id": _TEXT, "status": _TEXT, **dict.fromkeys(("readable", "writable", "listable", "deletable"), _FLAG)}
    columns |= {"latency_ms": _WHOLE, "total_bytes": _WHOLE, "used_bytes": _WHOLE, "error": _TEXT, "tested_at": _MOMENT}
    storage = context.catalog().storages.get(statement.id)
    if storage is None:
        raise NotFound(f"there is no storage {statement.id!r}; there are {', '.join(context.catalog().storages)}")
    found = health(context.lake.warehouse, storage, extended=statement.extended)
    return listing(columns, [vars(found)])
