"""Executes INSERT: rows of VALUES or of a query, through the write log or straight into Delta, as the plan says."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from lakewarden.catalog.model import SchemaColumn, TableSchema
from lakewarden.delta.reading.rows import matches
from lakewarden.errors import InvalidArgument, Unsupported
from lakewarden.operations.direct.value import TaskFiles
from lakewarden.operations.reading.keys import key_bounds
from lakewarden.operations.reading.scope import Wanted
from lakewarden.rows.intake import Parts, Rows
from lakewarden.sql.context import Context
from lakewarden.sql.handlers.temporary import insert_temporary
from lakewarden.sql.handlers.values import rows_of_values
from lakewarden.sql.handlers.writing.copying import copying_of
from lakewarden.sql.handlers.writing.direct import append, completed
from lakewarden.sql.handlers.writing.parts import in_memory, insert_parts
from lakewarden.sql.handlers.writing.revision import changed, fitted_rows, of_target, revision_query
from lakewarden.sql.handlers.writing.target import Target, column_of, columns_named, target_of
from lakewarden.sql.queries import select
from lakewarden.sql.queries.scan import for_duck
from lakewarden.sql.results import Affected
from lakewarden.sql.statements.rows import Assignment, Insert, OnConflict, Overwrite
from lakewarden.table.client import WriteMode

_EXCLUDED = "excluded"
_AT_ONCE = "ON CONFLICT compares all of them with the live rows at once"
_IN_MEMORY = "the rows of a temporary table are in memory"
_ONLY_VALUES = {"expressions", "from_"}
"""The parts of a query that has nothing but its VALUES."""


def insert(context: Context, statement: Insert) -> Affected:
    """Raises:
    ConstraintViolation: a key exists and there is no ON CONFLICT, or a value does not fit. Nothing was written.
    """
    if (held := context.temporary_table(context.named(statement.table))) is not None:
        return insert_temporary(context, held, in_memory(context, incoming(context, statement, held.table.schema), _IN_MEMORY))
    target = target_of(context, statement)
    if statement.conflict is None and (files := copied(context, statement, target)) is not None:
        return append(target, files)
    given = incoming(context, statement, target.schema)
    if statement.conflict is not None:
        return _on_conflict(context, statement, statement.conflict, target, in_memory(context, given, _AT_ONCE))
    if not target.plan.in_log:
        if statement.files:
            raise Unsupported(f"{target.table.name} has no primary key: a file belongs to a row that has one")
        return append(target, completed(target, given))
    if isinstance(given, Parts):
        return insert_parts(target, given)
    mode: WriteMode = "upsert" if target.table.options.on_duplicate == "replace" else "insert"
    return target.affected(target.client.write(given, user=target.user, mode=mode).rows)


def copied(context: Context, statement: Insert | Overwrite, target: Target) -> TaskFiles | None:
    """The rows of a query that tasks compute and write, where that is possible and worth it."""
    if target.plan.in_log or target.schema.keyed or statement.rows is None:
        return None
    copying = copying_of(context, statement.rows)
    if copying is None:
        return None
    columns = columns_named(target.schema, statement.columns)
    _check_as_many(copying.shape.columns, columns)
    return copying.into(target.client, columns)


def incoming(context: Context, statement: Insert | Overwrite, schema: TableSchema) -> Rows | Parts:
    """The rows of VALUES or of the query by column name; a DEFAULT is left out of its row."""
    columns = columns_named(schema, statement.columns)
    if statement.rows is None:
        return [{}]
    source = statement.rows.args.get("from_")
    parts = {name for name, part in statement.rows.args.items() if part}
    if source is not None and isinstance(source.this, exp.Values) and statement.rows.is_star and parts == _ONLY_VALUES:
        return _with_files(context, statement, rows_of_values(context, source.this, columns), columns)
    found = select.spooled(context, statement.rows)
    _check_as_many(found.columns, columns)
    return found.each(partial(fitted_rows, columns, found.types))


def _check_as_many(found: Sequence[str], columns: Sequence[SchemaColumn]) -> None:
    if len(found) != len(columns):
        names = ", ".join(column.name for column in columns)
        raise InvalidArgument(f"{len(found)} values are given for {len(columns)} columns, which are {names}")


def _with_files(
    context: Context, statement: Insert | Overwrite, rows: list[dict[str, object]], columns: Sequence[SchemaColumn]
) -> list[dict[str, object]]:
    for file in statement.files if isinstance(statement, Insert) else ():
        column = columns[file.place]
        if column.type.name != "FILE":
            raise InvalidArgument(f"column {column.name} is of type {column.type} and takes no file: FILE({file.name!r})")
        rows[file.row][column.name] = context.uploads[file.name]
    return rows


def _on_conflict(context: Context, statement: Insert, conflict: OnConflict, target: Target, given: Rows) -> Affected:
    schema = target.schema
    _check_conflict_columns(schema, conflict)
    taken = target.client.take_files(given, target.user)
    rows = target.client.completed(taken.rows, user=target.user)

    def decide(live: pa.Table) -> pa.Table:
        fresh = rows.filter(pc.invert(matches(rows, live, schema.primary_key))) if live.num_rows else rows
        if conflict.assignments is None or fresh.num_rows == rows.num_rows:
            return fresh
        return pa.concat_tables([fresh, _merged(context, statement, conflict.assignments, target, live, rows)])

    wanted = Wanted(bounds=key_bounds(schema.primary_key, rows))
    return target.affected(target.client.revise(decide, user=target.user, wanted=wanted, files=taken.files))


def _check_conflict_columns(schema: TableSchema, conflict: OnConflict) -> None:
    if not schema.primary_key:
        raise InvalidArgument("ON CONFLICT needs a primary key, and the table has none")
    named = {column_of(schema, name).name for name in conflict.columns}
    if named and named != set(schema.primary_key):
        raise InvalidArgument(f"ON CONFLICT names ({', '.join(conflict.columns)}); the key is ({', '.join(schema.primary_key)})")


def _merged(
    context: Context, statement: Insert, assignments: Sequence[Assignment], target: Target, live: pa.Table, rows: pa.Table
) -> pa.Table:
    """The live rows whose keys are inserted again, as DO UPDATE changes them, without unchanged ones."""
    schema, alias = target.schema, statement.alias or statement.table.name
    qualified = [Assignment(each.column, of_target(each.value, schema, alias)) for each in assignments]
    on = [
        exp.EQ(this=exp.column(name, alias, quoted=True), expression=exp.column(name, _EXCLUDED, quoted=True))
        for name in schema.primary_key
    ]
    query = revision_query(target, qualified, alias).join(exp.table_(_EXCLUDED, quoted=True), on=exp.and_(*on), copy=False)
    where = statement.conflict.where if statement.conflict else None
    if where is not None:
        query = query.where(of_target(where, schema, alias), copy=False)
    found = select.run(context, query, {target.table.name: live}, {_EXCLUDED: for_duck(rows, schema)})
    return changed(context, target, found, assignments)
