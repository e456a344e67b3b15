"""Executes INSERT, UPDATE and DELETE. Each reads, decides, and writes directly after the position that it read. If another
write came in between, it reads and decides again.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from lakewarden.catalog.model import SchemaColumn, Table, TableSchema
from lakewarden.delta.reading.rows import matches
from lakewarden.errors import InvalidArgument, Unsupported
from lakewarden.rows.columns import single
from lakewarden.rows.defaults import Defaults
from lakewarden.rows.intake import Rows
from lakewarden.sql.context import Context
from lakewarden.sql.handlers.values import is_default, rows_of_values
from lakewarden.sql.queries import select
from lakewarden.sql.queries.scan import for_duck
from lakewarden.sql.relations import SEQ
from lakewarden.sql.results import Affected
from lakewarden.sql.results import Rows as Found
from lakewarden.sql.statements.base import Ref
from lakewarden.sql.statements.rows import Assignment, Delete, Insert, OnConflict, Update
from lakewarden.table import TableClient

_EXCLUDED = "excluded"
_WHOLE = ("SMALLINT", "INT", "BIGINT")
_ONLY_VALUES = {"expressions", "from_"}
"""The parts of a query that has nothing but its VALUES."""


def insert(context: Context, statement: Insert) -> Affected:
    """Raises:
    ConstraintViolation: a key exists and there is no ON CONFLICT, or a value does not fit. Nothing was written.
    """
    client, table, user = _target(context, statement.table)
    schema = table.schema
    names = [_column(schema, name).name for name in statement.columns] or schema.names
    _check_once(names)
    given = _incoming(context, statement, schema, names)
    if statement.conflict is None:
        return Affected(client.write(given, user=user, mode="insert").rows)
    _check_conflict_columns(schema, statement.conflict)
    taken = client.take_files(given, user)
    incoming = client.completed(taken.rows, user=user)

    def decide(live: pa.Table) -> pa.Table:
        fresh = incoming.filter(pc.invert(matches(incoming, live, schema.primary_key))) if live.num_rows else incoming
        if statement.conflict is None or statement.conflict.assignments is None or fresh.num_rows == incoming.num_rows:
            return fresh
        changed = _merged(context, statement, statement.conflict.assignments, table, live, incoming)
        return pa.concat_tables([fresh, changed])

    return Affected(client.revise(decide, user=user, files=taken.files))


def update(context: Context, statement: Update) -> Affected:
    """Raises:
    Unsupported: the statement sets a column of the key.
    ConstraintViolation, InvalidArgument: a value does not fit, or a column does not exist. Nothing was written.
    """
    client, table, user = _target(context, statement.table)
    query = _revision(table, statement.assignments, statement.alias or statement.table.name)
    query = query.where(statement.where.copy(), copy=False)

    def decide(live: pa.Table) -> pa.Table:
        return _changed(context, table, select.run(context, query, {table.name: live}), statement.assignments)

    return Affected(client.revise(decide, user=user))


def delete(context: Context, statement: Delete) -> Affected:
    client, table, user = _target(context, statement.table)
    if table.schema.append_only:
        return _delete_from_stream(context, statement, client, user)
    alias = statement.alias or statement.table.name
    key = [exp.column(name, alias, quoted=True) for name in table.schema.primary_key]
    query = exp.select(*key, copy=False).from_(_node(table, alias), copy=False).where(statement.where.copy(), copy=False)

    def decide(live: pa.Table) -> pa.Table:
        return select.run(context, query, {table.name: live}).table

    return Affected(client.revise(decide, user=user, delete=True))


def _delete_from_stream(context: Context, statement: Delete, client: TableClient, user: str | None) -> Affected:
    """Rows of a stream are identified by their place in the log: they may have no key, or share one."""
    assert user is not None, "a STREAM table has a scope per user"
    alias = statement.alias or statement.table.name
    place = exp.column(SEQ, alias, quoted=True)
    query = exp.select(place, copy=False).from_(_node(client.table, alias), copy=False)
    found = select.run(context, query.where(statement.where.copy(), copy=False))
    return Affected(client.delete_rows([int(seq) for seq in found.table.column(0).to_numpy()], user=user).rows)


def _target(context: Context, ref: Ref) -> tuple[TableClient, Table, str | None]:
    table = context.table(ref)
    return _client(context, table), table, context.owner(table)


def _client(context: Context, table: Table) -> TableClient:
    return TableClient.of(context.warehouse, table).by(context.principal.user)


# INSERT


def _incoming(context: Context, statement: Insert, schema: TableSchema, names: Sequence[str]) -> Rows:
    """The rows of VALUES or of the query by column name; a DEFAULT is left out of its row."""
    if statement.rows is None:
        return [{}]
    columns = [_column(schema, name) for name in names]
    source = statement.rows.args.get("from_")
    parts = {name for name, part in statement.rows.args.items() if part}
    if source is not None and isinstance(source.this, exp.Values) and statement.rows.is_star and parts == _ONLY_VALUES:
        return _with_files(context, statement, rows_of_values(context, source.this, columns), columns)
    found = select.run(context, statement.rows)
    if len(found.columns) != len(names):
        raise InvalidArgument(f"{len(found.columns)} values are given for {len(names)} columns, which are {', '.join(names)}")
    values = [_assigned(column, found.table.column(index), found.types[index]) for index, column in enumerate(columns)]
    return pa.table(dict(zip(names, values, strict=True)))


def _with_files(
    context: Context, statement: Insert, rows: list[dict[str, object]], columns: Sequence[SchemaColumn]
) -> list[dict[str, object]]:
    for file in statement.files:
        column = columns[file.place]
        if column.type.name != "FILE":
            raise InvalidArgument(f"column {column.name} is of type {column.type} and takes no file: FILE({file.name!r})")
        rows[file.row][column.name] = context.uploads[file.name]
    return rows


def _check_once(names: Sequence[str]) -> None:
    twice = next((name for name in names if list(names).count(name) > 1), None)
    if twice is not None:
        raise InvalidArgument(f"column {twice!r} is named twice")


def _check_conflict_columns(schema: TableSchema, conflict: OnConflict) -> None:
    named = {_column(schema, name).name for name in conflict.columns}
    if named and named != set(schema.primary_key):
        raise InvalidArgument(f"ON CONFLICT names ({', '.join(conflict.columns)}); the key is ({', '.join(schema.primary_key)})")


def _merged(
    context: Context, statement: Insert, assignments: Sequence[Assignment], table: Table, live: pa.Table, incoming: pa.Table
) -> pa.Table:
    """The live rows whose keys are inserted again, as DO UPDATE changes them, without unchanged ones."""
    alias = statement.alias or statement.table.name
    qualified = [Assignment(each.column, _of_target(each.value, table.schema, alias)) for each in assignments]
    on = [
        exp.EQ(this=exp.column(name, alias, quoted=True), expression=exp.column(name, _EXCLUDED, quoted=True))
        for name in table.schema.primary_key
    ]
    query = _revision(table, qualified, alias).join(exp.table_(_EXCLUDED, quoted=True), on=exp.and_(*on), copy=False)
    where = statement.conflict.where if statement.conflict else None
    if where is not None:
        query = query.where(_of_target(where, table.schema, alias), copy=False)
    found = select.run(context, query, {table.name: live}, {_EXCLUDED: for_duck(incoming, table.schema)})
    return _changed(context, table, found, assignments)


def _of_target(value: exp.Expr, schema: TableSchema, alias: str) -> exp.Expr:
    """Bare columns mean the existing row; the new one is `excluded.`. Subqueries have their own names."""
    made = value.copy()
    names = {name.lower() for name in schema.names}
    for column in list(made.find_all(exp.Column)):
        if not column.table and column.name.lower() in names and column.find_ancestor(exp.Query) is None:
            column.set("table", exp.to_identifier(alias, quoted=True))
    return made


# What UPDATE and DO UPDATE share


def _revision(table: Table, assignments: Sequence[Assignment], alias: str) -> exp.Select:
    """Selects every column with the assignments applied, then the assigned ones' old values; named by position."""
    schema = table.schema
    values = {}
    for each in assignments:
        column = _column(schema, each.column)
        if column.name in schema.primary_key:
            raise Unsupported(f"column {column.name} is part of the primary key of {table.name}, which UPDATE cannot change")
        values[column.name] = exp.null() if is_default(each.value) else each.value.copy()
    old = {name: exp.column(name, alias, quoted=True) for name in schema.names}
    projections = [values.get(name, old[name]) for name in schema.names] + [old[name].copy() for name in values]
    named = [exp.alias_(value, f"value {index}", quoted=True) for index, value in enumerate(projections)]
    return exp.select(*named, copy=False).from_(_node(table, alias), copy=False)


def _changed(context: Context, table: Table, found: Found, assignments: Sequence[Assignment]) -> pa.Table:
    """The complete new rows of a revision, without unchanged ones."""
    schema = table.schema
    assigned = {_column(schema, each.column).name: each for each in assignments}
    columns = {}
    for column, values, kind in zip(schema.columns, found.table.columns, found.types, strict=False):
        if column.name not in assigned:
            columns[column.name] = _with_default(context, column, values)
        elif not is_default(assigned[column.name].value):  # a missing value gets its default
            columns[column.name] = _assigned(column, values, kind)
    made = _client(context, table).completed(pa.table(columns), user=context.owner(table))
    old = dict(zip(assigned, found.table.columns[len(schema.names) :], strict=True))
    differs = [pc.invert(_same(made.column(name), old[name])) for name in assigned]
    return made.filter(reduce(pc.or_, differs)) if made.num_rows else made


def _with_default(context: Context, column: SchemaColumn, values: pa.ChunkedArray[Any]) -> pa.ChunkedArray[Any]:
    """Rows older than a NOT NULL column whose default differs per row have NULL there until they change."""
    if column.nullable or column.default is None or not values.null_count:
        return values
    warehouse = context.warehouse
    defaults = Defaults(warehouse.clock, warehouse.new_id, context.principal.user)
    whole = single(column.name, values)
    made = defaults.values(column, whole.null_count, warehouse.clock())
    return pa.chunked_array([pc.replace_with_mask(whole, whole.is_null(), made)])


def _same(one: pa.ChunkedArray[Any], other: pa.ChunkedArray[Any]) -> Any:
    """Equal, or both NULL."""
    both_null = pc.and_(pc.is_null(one), pc.is_null(other))
    return pc.or_kleene(
        both_null, pc.if_else(pc.or_(pc.is_null(one), pc.is_null(other)), False, pc.equal(one, other.cast(one.type)))
    )


def _assigned(column: SchemaColumn, values: pa.ChunkedArray[Any], type: str) -> pa.ChunkedArray[Any]:
    """Converts values for a column: a whole number of another type takes the column's type where nothing is lost.

    `rows.validate` refuses everything else that does not fit.
    """
    numeric = pa.types.is_decimal(values.type) or pa.types.is_floating(values.type)
    if (column.type.name in _WHOLE and numeric) or type in ("HUGEINT", "UHUGEINT"):
        try:
            return values.cast(pa.int64())
        except pa.ArrowInvalid:
            return values
    return values


def _node(table: Table, alias: str) -> exp.Table:
    return exp.table_(table.name.name, table.name.namespace, quoted=True, alias=exp.to_identifier(alias, quoted=True))


def _column(schema: TableSchema, name: str) -> SchemaColumn:
    """Raises:
    InvalidArgument: the column does not exist, whatever its case.
    """
    if name.lower() == SEQ:
        raise InvalidArgument("column _seq is assigned by the log and cannot be written")
    found = next((column for column in schema.columns if column.name.lower() == name.lower()), None)
    if found is None:
        raise InvalidArgument(f"there is no column {name!r}; the columns are {', '.join(schema.names)}")
    return found
