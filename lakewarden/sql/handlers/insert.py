"""Executes INSERT: rows of VALUES or of a query, through the write log or straight into Delta, as the plan says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import cast

import pyarrow as pa

from lakewarden.catalog.model import SchemaColumn, TableSchema
from lakewarden.delta.partitions import Partition, divided, filled
from lakewarden.errors import InvalidArgument, Unsupported
from lakewarden.sql.context import Context
from lakewarden.sql.handlers.conflicts import insert_on_conflict
from lakewarden.sql.handlers.copying import copying_of
from lakewarden.sql.handlers.direct import append, completed, overwrite_directly
from lakewarden.sql.handlers.revision import fitted_rows
from lakewarden.sql.handlers.tables import insert_temporary, named_of
from lakewarden.sql.handlers.target import WriteTarget, columns_named, insert_parts, of_shares, replace_by_parts, target_of
from lakewarden.sql.handlers.values import rows_of_values
from lakewarden.sql.queries import select
from lakewarden.sql.query_engine.engine import Limits
from lakewarden.sql.results import AffectedRows
from lakewarden.sql.statements.rows import Insert, Overwrite, Truncate
from lakewarden.tables.client.client import WriteMode
from lakewarden.tables.direct.value import TaskFiles
from lakewarden.tables.intake import Revision
from lakewarden.tables.predicate import condition_of
from lakewarden.tables.rows.intake import RowParts, Rows
from lakewarden.tables.strong_read import ReadSelection


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
    if statement.values is not None:
        return _with_files(context, statement, rows_of_values(context, statement.values, columns), columns)
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


# Executes INSERT OVERWRITE of dynamic tables: of the partition that is named, or of those that the rows fall into (FL-43).
def overwrite_dynamic(context: Context, statement: Overwrite, target: WriteTarget) -> AffectedRows:
    """Raises:
    ConstraintViolation, InvalidArgument: a row or a named partition does not fit, or a key is given twice. Nothing was changed.
    Conflict: a flush changed the same partitions meanwhile. Nothing was changed.
    """
    table = target.table
    named = dict(named_of(table, statement.partition)) if statement.partition else {}
    if named and not statement.columns:
        rest = tuple(name for name in table.schema.names if name not in named)
        statement = replace(statement, columns=rest)
    rows = _completed(context, statement, target, named)
    if len(named) == len(table.schema.partition_by):
        partitions = [tuple(named.items())] if named else []
    else:
        partitions = list(dict.fromkeys(each for part in rows() for each in _partitions(part, table.schema.partition_by)))
        if not partitions:
            return target.affected(0)  # no row says which partitions would be replaced
    result = target.client.direct.overwrite((part for part in rows() if part.num_rows), within=condition_of(partitions))
    return target.affected(result.rows_inserted, result.version if result.committed else None)


def _partitions(rows: pa.Table, columns: Sequence[str]) -> Iterator[Partition]:
    return (partition for partition, _ in divided(rows, columns)) if rows.num_rows else iter(())


def _completed(
    context: Context, statement: Overwrite, target: WriteTarget, named: dict[str, str | None]
) -> Callable[[], Iterable[pa.Table]]:
    """The rows as they are stored, as often as they are needed."""
    given = incoming(context, statement, target.schema)
    kinds = {column.name: column.type.arrow for column in target.schema.columns}

    def complete(rows: pa.Table) -> pa.Table:
        for name, text in named.items():
            rows = rows.append_column(name, filled(text, rows.num_rows, kinds[name]))
        return target.client.completed(rows, user=None)

    if isinstance(given, RowParts):
        return lambda: map(complete, given.tables())
    if isinstance(given, pa.Table):
        made = complete(given)
    else:
        values = {name: filled(text, 1, kinds[name])[0].as_py() for name, text in named.items()}
        every = cast("Iterable[Mapping[str, object]]", given)  # `incoming` returns a table or dicts
        made = target.client.completed([{**row, **values} for row in every], user=None)
    return lambda: [made]


# Executes INSERT OVERWRITE and TRUNCATE: by one commit in Delta; in a USER table by one call of the log.
def overwrite(context: Context, statement: Overwrite) -> AffectedRows:
    """Raises:
    ConstraintViolation, InvalidArgument: a row does not fit, or a key is given twice. Nothing was changed.
    """
    target = target_of(context, statement)
    if target.table.dynamic is not None:
        return overwrite_dynamic(context, statement, target)
    if statement.partition:
        raise Unsupported(f"INSERT OVERWRITE … PARTITION is for dynamic tables, and {target.table.name} is not one")
    if (files := copied(context, statement, target)) is not None:
        return overwrite_directly(target, files)
    return _replaced(target, incoming(context, statement, target.schema))


def truncate(context: Context, statement: Truncate) -> AffectedRows:
    return _replaced(target_of(context, statement), None)


def _replaced(target: WriteTarget, given: Rows | RowParts | None) -> AffectedRows:
    if not target.plan.in_log:
        return overwrite_directly(target, None if given is None else completed(target, given))
    if isinstance(given, RowParts):
        return replace_by_parts(target, given)
    rows = None if given is None else target.client.completed(given, user=target.user)

    def decide(live: pa.Table) -> Revision:
        return Revision(rows, live.select(target.schema.primary_key))

    changes = target.client.revise(decide, user=target.user, wanted=ReadSelection(target.schema.primary_key))
    return target.affected(changes if rows is None else rows.num_rows)
