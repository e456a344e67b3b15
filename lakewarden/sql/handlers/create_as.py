"""Executes CREATE TABLE … AS: the query runs and its rows are checked before there is a table, which appears with its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from lakewarden.admin.create_table import appearing, new_table
from lakewarden.catalog.model import Table
from lakewarden.catalog.options import check_type
from lakewarden.errors import AlreadyExists, LakewardenError, Unsupported
from lakewarden.operations.procedures.drop import end_drop
from lakewarden.sql.context import Context
from lakewarden.sql.handlers.define import options_of
from lakewarden.sql.handlers.writing.inferred import inferred_columns
from lakewarden.sql.handlers.writing.revision import fitted
from lakewarden.sql.queries import select
from lakewarden.sql.results import Done, Rows
from lakewarden.sql.statements.tables import CreateTableAs
from lakewarden.table import TableClient


def create_table_as(context: Context, statement: CreateTableAs) -> Done:
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
            return Done(f"table {name} already exists")
        raise AlreadyExists(f"table {name} already exists; INSERT INTO … SELECT adds rows to it")
    found = select.run(context, statement.query)
    columns = inferred_columns(context, statement.query, found)
    key, partition_by = (_as_named(found.columns, names) for names in (statement.primary_key, statement.partition_by))
    table = new_table(context.warehouse, name, kind, columns, key, options_of(statement.options), partition_by)
    rows = _completed(context, table, found)
    at = context.services.operator().workplace
    end_drop(at, name)
    try:
        with appearing(context.warehouse, table):
            _fill(context, table, rows)
    except LakewardenError:
        end_drop(at, name)
        raise
    return Done(f"table {name} created with {rows.num_rows} {'row' if rows.num_rows == 1 else 'rows'}")


def _as_named(columns: Sequence[str], names: Sequence[str]) -> list[str]:
    """Names in SQL ignore case."""
    there = {column.lower(): column for column in columns}
    return [there.get(name.lower(), name) for name in names]


def _completed(context: Context, table: Table, found: Rows) -> pa.Table:
    values = zip(table.schema.columns, found.table.columns, found.types, strict=True)
    given = pa.table({column.name: fitted(column, values, kind) for column, values, kind in values})
    return _client(context, table).completed(given, user=context.owner(table))


def _fill(context: Context, table: Table, rows: pa.Table) -> None:
    client = _client(context, table)
    if table.type == "SHARED":
        replace(client.direct, hidden=True).overwrite([rows])
    else:
        client.write(rows, user=context.owner(table))


def _client(context: Context, table: Table) -> TableClient:
    return TableClient.of(context.warehouse, table).by(context.principal.user)
