"""Executes CREATE TABLE … AS: the query runs before there is a table, which appears with its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from lakewarden.catalog.model import Table
from lakewarden.catalog.options import check_type
from lakewarden.errors import AlreadyExists, LakewardenError, Unsupported
from lakewarden.maintenance.admin.create_table import appearing, new_table
from lakewarden.maintenance.drop.procedure import end_drop
from lakewarden.maintenance.open_table import open_table
from lakewarden.sql.context import Context
from lakewarden.sql.handlers.declaring import options_of
from lakewarden.sql.handlers.writing.copying import Copying, copying_of
from lakewarden.sql.handlers.writing.query_columns import inferred_columns
from lakewarden.sql.handlers.writing.revision import fitted_rows
from lakewarden.sql.queries import select
from lakewarden.sql.queries.select import SpooledRows
from lakewarden.sql.results import StatementDone
from lakewarden.sql.statements.tables import CreateTableAs
from lakewarden.tables.client import TableClient
from lakewarden.tables.direct.value import TaskFiles
from lakewarden.tables.rows.intake import RowParts


def create_table_as(context: Context, statement: CreateTableAs) -> StatementDone:
    """Raises:
    InvalidArgument: a column of the query has no name or type that a table's column can have; or as `make_table`.
    ConstraintViolation: a row has no key, or two have the same. No table was created.
    """
    name = context.named(statement.table)
    kind = check_type(statement.type)
    if kind == "STREAM":
        raise Unsupported(f"{name}: a STREAM table is created with its columns, not from a query")
    there = context.catalog.tables.get(name)
    if there is not None and not there.dropping:
        if statement.if_not_exists:
            return StatementDone(f"table {name} already exists")
        raise AlreadyExists(f"table {name} already exists; INSERT INTO … SELECT adds rows to it")
    copying = copying_of(context, statement.query) if kind == "SHARED" and not statement.primary_key else None
    found = copying or select.spooled(context, statement.query)
    shape = found.shape if isinstance(found, Copying) else found
    columns = inferred_columns(context, statement.query, shape.columns, shape.types)
    key, partition_by = (_as_named(shape.columns, names) for names in (statement.primary_key, statement.partition_by))
    table = new_table(context.warehouse, name, kind, columns, key, options_of(statement.options), partition_by)
    given = _given(context, table, found)
    at = context.services.operator()
    end_drop(at, name)
    try:
        with appearing(context.warehouse, table):
            count = _fill(context, table, given)
    except LakewardenError:
        end_drop(at, name)
        raise
    return StatementDone(f"table {name} created with {count} {'row' if count == 1 else 'rows'}")


def _as_named(columns: Sequence[str], names: Sequence[str]) -> list[str]:
    """Names in SQL ignore case."""
    there = {column.lower(): column for column in columns}
    return [there.get(name.lower(), name) for name in names]


def _given(context: Context, table: Table, found: SpooledRows | Copying) -> pa.Table | RowParts | TaskFiles:
    """The rows as they are stored, checked before there is a table; those of parts and tasks are checked as they are read."""
    client, user = _client(context, table), context.owner(table)
    if isinstance(found, Copying):
        return found.into(client, table.schema.columns)

    def complete(rows: pa.Table) -> pa.Table:
        return client.completed(fitted_rows(table.schema.columns, found.types, rows), user=user)

    return found.each(complete)


def _fill(context: Context, table: Table, given: pa.Table | RowParts | TaskFiles) -> int:
    """Returns the number of rows."""
    client, user = _client(context, table), context.owner(table)
    if table.type == "SHARED":
        rows = given.tables() if isinstance(given, RowParts) else given if isinstance(given, TaskFiles) else [given]
        return replace(client.direct, hidden=True).overwrite(rows).rows_inserted
    assert not isinstance(given, TaskFiles), "of SHARED tables only"
    return (client.write_parts(given, user=user) if isinstance(given, RowParts) else client.write(given, user=user)).rows


def _client(context: Context, table: Table) -> TableClient:
    return open_table(context.warehouse, table).by(context.principal.user)
