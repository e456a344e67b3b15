"""Reads the rows of one relation, as far as a query needs them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from lakewarden.base.scope import TableName
from lakewarden.catalog.model import Table, TableSchema
from lakewarden.delta.reading.bounds import Bound
from lakewarden.maintenance.open_table import open_table
from lakewarden.sql.context import Context
from lakewarden.sql.queries.pushdown import Pushdown
from lakewarden.sql.relations import SYSTEM, Relation
from lakewarden.sql.system_relations import system_relation
from lakewarden.tables.strong_read import PastScope, ReadSelection
from lakewarden.tables.warehouse import find_table


def relation(context: Context, name: TableName, pushdown: Pushdown, read: pa.Table | None) -> pa.Table:
    if name.namespace == SYSTEM:
        return system_relation(context, name.name)
    if (held := context.temporary_table(name)) is not None:
        return for_duck(held.rows.select(pushdown.columns), held.table.schema)
    table = find_table(context.catalog, name)
    if read is None:
        read = scanned(context, table, wanted_by(pushdown))
    return for_duck(read.select(pushdown.columns), table.schema)


def scanned(context: Context, table: Table, wanted: ReadSelection) -> pa.Table:
    """The session's rows of a table, those of its block among them; some outside the bounds, too."""
    owner = context.owner(table)
    client = context.block.reading(open_table(context.warehouse, table), owner)
    return client.scan(wanted, user=owner, freshness=context.freshness)


def scanned_within(context: Context, table: Table, columns: tuple[str, ...], bounds: tuple[Bound, ...]) -> pa.Table:
    return scanned(context, table, ReadSelection(columns, bounds))


def wanted_by(pushdown: Pushdown) -> ReadSelection:
    return ReadSelection(pushdown.columns, pushdown.bounds, pushdown.number_only)


def past(context: Context, relation: Relation) -> PastScope:
    """Finds the version of a table's past that a query reads. Raises as `TableReader.past`."""
    assert relation.as_of is not None, "only versions of a table have a past"
    table = find_table(context.catalog, relation.table)
    return open_table(context.warehouse, table).reader.past(relation.as_of, context.owner(table))


def past_relation(scope: PastScope, pushdown: Pushdown) -> pa.Table:
    rows = scope.rows(wanted_by(pushdown))
    return for_duck(rows.select(pushdown.columns), scope.schema)


def for_duck(rows: pa.Table, schema: TableSchema) -> pa.Table:
    """JSON and FILE columns in DuckDB's JSON type: its JSON shorthands do not accept text."""
    for index, name in enumerate(rows.column_names):
        column = schema.column(name)
        if column is not None and column.type.name in ("JSON", "FILE") and not pa.types.is_null(rows.field(name).type):
            kind = pa.json_(pa.string())
            chunks: list[pa.Array[Any]] = [pa.ExtensionArray.from_storage(kind, chunk) for chunk in rows.column(index).chunks]
            whole = pa.chunked_array(chunks) if chunks else pa.ExtensionArray.from_storage(kind, pa.array([], pa.string()))
            rows = rows.set_column(index, name, whole)
    return rows
