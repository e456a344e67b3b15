"""Builds assets from the catalog: one for each table, its users as partitions. Runs once, when the code location loads."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import dagster as dg

from lakewarden.catalog.model import Catalog, SchemaColumn, Storage, Table, TableSchema
from lakewarden.dagster.assets.rules import rule_key
from lakewarden.dagster.mount import Mount
from lakewarden.storage.location import join
from lakewarden.storage.paths import table_prefix
from lakewarden.warehouse import Warehouse, live_tables

MAX_PARTITIONS = 100_000
"""Users above which a table's asset is unpartitioned: Dagster's own recommendation for one asset."""

_THREADS = 8

KINDS = {"deltalake", "parquet"}


def build_table_specs(
    mount: Mount, warehouse: Warehouse, catalog: Catalog, max_partitions: int = MAX_PARTITIONS
) -> list[dg.AssetSpec]:
    """One external asset for each table, in the order of the catalog."""
    tables = live_tables(catalog)
    with ThreadPoolExecutor(_THREADS) as pool:  # on an object store, reading the registry takes several round trips
        partitions = pool.map(lambda table: _partitions(mount, warehouse, table, max_partitions), tables)
        return [_spec(mount, warehouse, catalog, table, found) for table, found in zip(tables, partitions, strict=True)]


def _spec(
    mount: Mount, warehouse: Warehouse, catalog: Catalog, table: Table, partitions: dg.DynamicPartitionsDefinition | None
) -> dg.AssetSpec:
    storage = catalog.storages[table.options.storage_id]
    return dg.AssetSpec(
        mount.asset_key(table.name),
        description=_description(table, storage),
        deps=[rule_key(mount, table.name)] if _is_ingested(catalog, table) else [],
        kinds=KINDS,
        group_name=mount.group_of(table.name),
        owners=mount.owners,
        metadata={
            "dagster/column_schema": column_schema(table.schema),
            "dagster/table_name": str(table.name),
            "dagster/uri": _uri(warehouse, storage, table),
            "primary_key": ", ".join(table.schema.primary_key),
            "schema_version": table.schema.version,
            "storage": storage.id,
        },
        partitions_def=partitions,
    )


def _is_ingested(catalog: Catalog, table: Table) -> bool:
    return any(pipeline.table_id == table.id for pipeline in catalog.pipelines.values())


def is_crowded(warehouse: Warehouse, table: Table, max_partitions: int = MAX_PARTITIONS) -> bool:
    """Whether the table has more users than an asset takes as partitions: its events are then those of the whole table."""
    return table.type != "SHARED" and len(warehouse.registry.users(table.id)) > max_partitions


def _partitions(mount: Mount, warehouse: Warehouse, table: Table, max_partitions: int) -> dg.DynamicPartitionsDefinition | None:
    if table.type == "SHARED" or is_crowded(warehouse, table, max_partitions):
        return None
    return dg.DynamicPartitionsDefinition(name=mount.dotted(table.name))


def _uri(warehouse: Warehouse, storage: Storage, table: Table) -> str:
    """The place of the whole table; each event links its own scope. A STREAM table is at its log."""
    if table.type == "STREAM":
        return join(warehouse.state.uri, warehouse.log(table).home)
    template = storage.shared_template if table.type == "SHARED" else storage.user_template
    return join(warehouse.base(storage), table_prefix(template, table.name, storage.folds_case))


def _description(table: Table, storage: Storage) -> str:
    if table.type == "STREAM":
        return f"STREAM table: rows in the write log only, for {table.options.ttl_seconds} s."
    policy = table.options.flush_policy
    what = "one Delta table a user" if table.type == "USER" else "one Delta table for all"
    due = f"flushed by policy {policy}" if policy else "flushed by hand only (no FLUSH_POLICY)"
    return f"{table.type} table: {what}, in storage {storage.id}; {due}."


def column_schema(schema: TableSchema) -> dg.TableSchema:
    return dg.TableSchema(columns=[*_columns(schema)])


def _columns(schema: TableSchema) -> Iterator[dg.TableColumn]:
    for column in schema.shown:
        constraints = dg.TableColumnConstraints(nullable=column.nullable, other=_notes(schema, column))
        yield dg.TableColumn(column.name, str(column.type), description=_text(schema, column), constraints=constraints)
    yield dg.TableColumn(
        "_seq",
        "BIGINT",
        description="Position of the row in the write log.",
        constraints=dg.TableColumnConstraints(nullable=False),
    )


def _text(schema: TableSchema, column: SchemaColumn) -> str:
    key = ["Part of the primary key." if len(schema.primary_key) > 1 else "The primary key."]
    default = [f"{column.default} where a write leaves it out."] if column.default else []
    return " ".join([*(key if column.name in schema.primary_key else []), *default])


def _notes(schema: TableSchema, column: SchemaColumn) -> list[str]:
    key = ["primary key"] if column.name in schema.primary_key else []
    return key + ([f"default {column.default}"] if column.default else [])
