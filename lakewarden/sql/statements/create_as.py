"""CREATE TABLE … AS: the query runs before there is a table, which appears with its rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp

from lakewarden.catalog.model import Column, Table
from lakewarden.catalog.options import check_type
from lakewarden.errors import AlreadyExists, InvalidArgument, LakewardenError, Unsupported
from lakewarden.maintenance.admin.create_table import appearing, new_table
from lakewarden.maintenance.drop import end_drop
from lakewarden.maintenance.open_table import open_table
from lakewarden.sql.context import Context
from lakewarden.sql.queries import select
from lakewarden.sql.queries.select import SpooledRows
from lakewarden.sql.ref import Pairs, Ref
from lakewarden.sql.results import StatementDone
from lakewarden.sql.rights import creation_right
from lakewarden.sql.statement import AuditEntrySpec, StatementSpec, TableCreation, registered
from lakewarden.sql.statements.clauses import as_declared, options_of
from lakewarden.sql.writing.copying import Copying, copying_of
from lakewarden.sql.writing.target import fitted_rows
from lakewarden.tables.client import TableClient
from lakewarden.tables.direct.value import TaskFiles
from lakewarden.tables.rows.intake import RowParts


@dataclass(frozen=True)
class CreateTableAs(TableCreation):
    """CREATE TABLE … AS: the columns are those of the query."""

    type: str
    primary_key: tuple[str, ...]
    partition_by: tuple[str, ...]
    query: exp.Query
    options: Pairs = ()
    if_not_exists: bool = False

    def queries(self) -> Iterator[exp.Expr]:
        yield self.query


# The columns of a table that is made from a query.
_TYPES = {
    "TINYINT": "SMALLINT",
    "UTINYINT": "SMALLINT",
    "USMALLINT": "INT",
    "INTEGER": "INT",
    "UINTEGER": "BIGINT",
    "UBIGINT": "DECIMAL(20,0)",
    "HUGEINT": "DECIMAL(38,0)",
    "UHUGEINT": "DECIMAL(38,0)",
    "VARCHAR": "TEXT",
    "BLOB": "BYTES",
    "TIMESTAMP_S": "TIMESTAMP",
    "TIMESTAMP_MS": "TIMESTAMP",
    "TIMESTAMP_NS": "TIMESTAMP",
    "TIMESTAMP WITH TIME ZONE": "TIMESTAMP",
    **{name: name for name in ("BOOLEAN", "SMALLINT", "BIGINT", "FLOAT", "DOUBLE", "DATE", "TIMESTAMP", "TIME", "UUID", "JSON")},
}
"""Of DuckDB's types those that a column can have, with the smallest type that takes all values."""

_DECIMALS = ("UBIGINT", "HUGEINT", "UHUGEINT")
_IN_K3 = _TYPES | dict.fromkeys(_DECIMALS, "BIGINT")
"""K3 has no DECIMAL: a sum of whole numbers is one, within the range of BIGINT."""

_KEPT_OTHERWISE = {"UUID": "VARCHAR", "TIME": "BIGINT"}
"""Column types that a query reads as another type of DuckDB's."""


def inferred_columns(context: Context, query: exp.Query, names: Sequence[str], types: Sequence[str]) -> list[Column]:
    """All may be NULL; a column that is taken from a table as it is keeps its type. By K3's rules no other becomes a DECIMAL.

    Raises:
        InvalidArgument: no column can have a type of the query.
    """
    declared, k3 = dict(_declared(context, query)), context.rules == "k3"
    return [Column(name, _type(name, kind, declared.get(name.lower(), ""), k3)) for name, kind in zip(names, types, strict=True)]


def _type(name: str, kind: str, taken: str, k3: bool) -> str:
    """`taken` is the type of the column that the query takes as it is, if it does."""
    if _KEPT_OTHERWISE.get(taken) == kind:
        return taken
    if kind.startswith("DECIMAL("):
        return "DOUBLE" if k3 and taken != "DECIMAL" else kind
    if kind.startswith("ENUM("):
        return "TEXT"
    found = (_IN_K3 if k3 else _TYPES).get(kind)
    if found is None:
        raise InvalidArgument(f"column {name!r} of the query is {kind}, which no column can be: cast it, as in {name}::TEXT")
    return found


def _declared(context: Context, query: exp.Query) -> Iterator[tuple[str, str]]:
    """The types of columns that a SELECT takes from its only table as they are, by the name of the result, in lower case."""
    from_ = query.args.get("from_") if isinstance(query, exp.Select) else None
    node = None if from_ is None or query.args.get("joins") else from_.this
    if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
        return
    table = context.guarded(context.named(Ref(node.name, node.db or None)))
    if not isinstance(table, Table):
        return
    types = {column.name.lower(): column.type.name for column in table.schema.columns}
    for each in query.selects:
        column = each.unalias()
        if isinstance(column, exp.Star):
            yield from types.items()
        elif isinstance(column, exp.Column) and column.name.lower() in types:
            yield each.alias_or_name.lower(), types[column.name.lower()]


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
    key, partition_by = (as_declared(shape.columns, names) for names in (statement.primary_key, statement.partition_by))
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
    return open_table(context.warehouse, table, context.principal.user)


ROWS = registered(
    StatementSpec(
        "CREATE [USER or SHARED] TABLE [IF NOT EXISTS] t [PRIMARY KEY (…)] [PARTITION BY (…)] [WITH (…)] AS SELECT …",
        "creates a table with the columns and rows of a query",
        creation_right(fills=True),
        create_table_as,
        audited=AuditEntrySpec("CREATE_TABLE", "table", "table"),
    ),
)
