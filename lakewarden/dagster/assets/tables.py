"""Builds assets from the catalog: one for each table, its users or values as partitions. Runs when the code location loads."""

from __future__ import annotations

from collections.abc import Iterator

import dagster as dg

from lakewarden.base.threads import at_once
from lakewarden.catalog.changes.pipelines import live_pipelines
from lakewarden.catalog.model import Catalog, Pipeline, SchemaColumn, Storage, Table, TableSchema
from lakewarden.dagster.assets.partition_values import MAX_VALUES, count_of, has_values
from lakewarden.dagster.mount import Mount
from lakewarden.ingest.pipelines.rejects import rejects_name
from lakewarden.storage.location import join
from lakewarden.storage.paths import table_prefix
from lakewarden.tables.warehouse import Warehouse, live_tables

MAX_PARTITIONS = 100_000
"""Users above which a table's asset is unpartitioned: Dagster's own recommendation for one asset."""

KINDS = {"deltalake", "parquet"}


def build_table_specs(
    mount: Mount,
    warehouse: Warehouse,
    catalog: Catalog,
    max_partitions: int = MAX_PARTITIONS,
    max_values: int = MAX_VALUES,
) -> list[dg.AssetSpec]:
    """One external asset for each table, in the order of the catalog."""
    tables = live_tables(catalog)

    def crowd(table: Table) -> str:
        if has_values(table):
            count = count_of(warehouse, catalog, table)
            return f"{count} partitions, more than {max_values}" if count > max_values else ""
        return f"more than {max_partitions} users" if is_crowded(warehouse, table, max_partitions) else ""

    crowds = at_once(crowd, tables)  # on an object store, reading the registry takes several round trips
    return [_spec(mount, warehouse, catalog, table, found) for table, found in zip(tables, crowds, strict=True)]


def _spec(mount: Mount, warehouse: Warehouse, catalog: Catalog, table: Table, crowd: str) -> dg.AssetSpec:
    """`crowd` says why the asset has no partitions; empty where it has all that its table has."""
    divided = table.type != "SHARED" or has_values(table)
    storage = catalog.storages[table.options.storage_id]
    return dg.AssetSpec(
        mount.asset_key(table.name),
        description=_description(table, storage) + (f" The asset has no partitions: there are {crowd}." if crowd else ""),
        deps=[mount.rule_key(one.table) for one in live_pipelines(catalog) if _comes_from(one, table)],
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
        partitions_def=dg.DynamicPartitionsDefinition(name=mount.dotted(table.name)) if divided and not crowd else None,
    )


def _comes_from(pipeline: Pipeline, table: Table) -> bool:
    """Whether it is the table of the pipeline, or that of its rejects."""
    return pipeline.table_id == table.id or rejects_name(pipeline.table) == table.name


def is_crowded(warehouse: Warehouse, table: Table, max_partitions: int = MAX_PARTITIONS) -> bool:
    """Whether the table has more users than an asset takes as partitions: its events are then those of the whole table."""
    return table.type != "SHARED" and len(warehouse.registry.users(table.id)) > max_partitions


def _uri(warehouse: Warehouse, storage: Storage, table: Table) -> str:
    """The place of the whole table; each event links its own scope. A STREAM table is at its log."""
    if table.type == "STREAM":
        return join(warehouse.state.uri, warehouse.log(table).home)
    template = storage.shared_template if table.type == "SHARED" else storage.user_template
    return join(warehouse.base(storage), table_prefix(template, table.name, storage.folds_case))


def _description(table: Table, storage: Storage) -> str:
    """What its people say of the table, then what Lakewarden does with it."""
    return "\n\n".join(filter(None, [table.description, _handling(table, storage)]))


def _handling(table: Table, storage: Storage) -> str:
    if table.type == "STREAM":
        return f"STREAM table: rows in the write log only, for {table.options.ttl_seconds} s."
    policy = table.options.flush_policy
    what = "one Delta table a user" if table.type == "USER" else "one Delta table for all"
    what += f", partitioned by {', '.join(table.schema.partition_by)}" if table.schema.partition_by else ""
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
