"""Executes INSERT: rows of VALUES or of a query, through the write log or straight into Delta, as the plan says."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from lakewarden.catalog.model import SchemaColumn, TableSchema
from lakewarden.errors import InvalidArgument, Unsupported
from lakewarden.sql.context import Context
from lakewarden.sql.handlers.temporary import insert_temporary
from lakewarden.sql.handlers.values import rows_of_values
from lakewarden.sql.handlers.writing.conflicts import insert_on_conflict
from lakewarden.sql.handlers.writing.copying import copying_of
from lakewarden.sql.handlers.writing.direct import append, completed
from lakewarden.sql.handlers.writing.parts import insert_parts, of_shares
from lakewarden.sql.handlers.writing.revision import fitted_rows
from lakewarden.sql.handlers.writing.target import WriteTarget, columns_named, target_of
from lakewarden.sql.plain_values import values_of
from lakewarden.sql.queries import select
from lakewarden.sql.query_engine.engine import Limits
from lakewarden.sql.results import AffectedRows
from lakewarden.sql.statements.rows import Insert, Overwrite
from lakewarden.tables.client.client import WriteMode
from lakewarden.tables.direct.value import TaskFiles
from lakewarden.tables.rows.intake import RowParts, Rows


def insert(context: Context, statement: Insert) -> AffectedRows:
    """Raises:
    ConstraintViolation: a key exists and there is no ON CONFLICT, or a value does not fit. Nothing was written.
    """
    if (held := context.temporary_table(context.named(statement.table))) is not None:
        return insert_temporary(context, held, incoming(context, statement, held.table.schema))
    target = target_of(context, statement)
    if statement.conflict is None and (files := copied(context, statement, target)) is not None:
        return append(target, files)
    if statement.conflict is not None:
        given = incoming(context, statement, target.schema, of_shares(context))
        return insert_on_conflict(context, statement, statement.conflict, target, given)
    given = incoming(context, statement, target.schema)
    if not target.plan.in_log:
        if statement.files:
            raise Unsupported(f"{target.table.name} has no primary key: a file belongs to a row that has one")
        return append(target, completed(target, given))
    if isinstance(given, RowParts):
        return insert_parts(target, given)
    mode: WriteMode = "upsert" if target.table.options.on_duplicate == "replace" else "insert"
    return target.affected(target.client.write(given, user=target.user, mode=mode).rows)


def copied(context: Context, statement: Insert | Overwrite, target: WriteTarget) -> TaskFiles | None:
    """The rows of a query that tasks compute and write, where that is possible and worth it."""
    if target.plan.in_log or target.schema.keyed or statement.rows is None:
        return None
    copying = copying_of(context, statement.rows)
    if copying is None:
        return None
    columns = columns_named(target.schema, statement.columns)
    _check_as_many(copying.shape.columns, columns)
    return copying.into(target.client, columns)


def incoming(
    context: Context, statement: Insert | Overwrite, schema: TableSchema, limits: Limits | None = None
) -> Rows | RowParts:
    """The rows of VALUES or of the query by column name; a DEFAULT is left out of its row.

    Args:
        limits: of the query, if not the usual ones.
    """
    columns = columns_named(schema, statement.columns)
    if statement.rows is None:
        return [{}]
    values = values_of(statement.rows)
    if values is not None:
        return _with_files(context, statement, rows_of_values(context, values, columns), columns)
    found = select.spooled(context, statement.rows, limits)
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
