"""Carries out statements straight in Delta, past the write log: by one commit each (tables/direct)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import msgspec
import numpy as np
import pyarrow as pa
from sqlglot import exp

from lakewarden.base.arrays import numbers
from lakewarden.catalog.model import TableSchema
from lakewarden.delta.partitions import Partition
from lakewarden.errors import InvalidArgument
from lakewarden.sql.context import Context
from lakewarden.sql.queries import select
from lakewarden.sql.query_engine.engine import Limits, QueryEngine, for_duck
from lakewarden.sql.query_engine.in_process import engine_of_process
from lakewarden.sql.results import AffectedRows, ResultRows
from lakewarden.sql.writing.target import Assignment, Reviser, WriteTarget
from lakewarden.tables.direct.revise import Spread
from lakewarden.tables.direct.value import DirectResult, Edit, Given, Within
from lakewarden.tables.predicate import STEADY, as_rows
from lakewarden.tables.rows.columns import single
from lakewarden.tables.rows.intake import RowParts, Rows

# A query of a table that runs over the rows of one file at a time, in this process or in a task. Picklable.
FILE = "rows of a file"
"""The relation of the rows; no table can have this name."""
_PLACE = "place in the file"
"""The column of a row's number in it, from 0."""


@dataclass(frozen=True)
class FileQuery:
    """The query as DuckDB reads it. What its subqueries name was read once."""

    sql: str
    others: Mapping[str, pa.Table] = field(repr=False)
    schema: TableSchema
    limits: Limits

    @classmethod
    def of(cls, context: Context, target: WriteTarget, query: exp.Select) -> FileQuery:
        """Args:
        query: of the table alone, but for its subqueries.
        """
        made = query.copy()
        table = made.args["from_"].this
        alias = table.alias_or_name
        for column in list(made.find_all(exp.Column)):
            if column.args.get("db") and (column.db.lower(), column.table.lower()) == (table.db.lower(), table.name.lower()):
                column.set("db", None)
        table.replace(exp.table_(FILE, quoted=True, alias=exp.to_identifier(alias, quoted=True)))
        made.select(exp.column(_PLACE, alias, quoted=True), copy=False)
        prepared = select.prepare(context, made, {FILE}, {FILE: target.schema})
        return cls(prepared.sql, select.relations(context, prepared), target.schema, context.limits)

    def run(self, rows: pa.Table, engine: QueryEngine) -> ResultRows:
        numbered = for_duck(rows.append_column(_PLACE, numbers(np.arange(rows.num_rows))), self.schema)
        return engine.run(self.sql, {**self.others, FILE: numbered}, self.limits)


@dataclass(frozen=True)
class UpdateFile:
    """What an UPDATE does to the rows of a file."""

    query: FileQuery
    """A `revision_query` with its condition."""
    reviser: Reviser
    engine: Callable[[], QueryEngine]

    def __call__(self, rows: pa.Table) -> Edit:
        found = self.query.run(rows, self.engine())
        made, differs = self.reviser.revised(found)
        return Edit(_places(found).filter(differs), made.filter(differs)) if made.num_rows else Edit(_places(found), made)


@dataclass(frozen=True)
class DeleteFile:
    """What a DELETE does to them."""

    query: FileQuery
    """Of the rows that go."""
    engine: Callable[[], QueryEngine]

    def __call__(self, rows: pa.Table) -> Edit:
        gone = _places(self.query.run(rows, self.engine()))
        return Edit(gone, rows.slice(0, 0).select(self.query.schema.names))


def _places(found: ResultRows) -> pa.Array[Any]:
    """The numbers of the rows that were found, which are its last column."""
    return single(_PLACE, found.table.columns[-1])


# Which partitions a statement can concern: by the parts of its condition that compare partition columns alone.
#
# DuckDB decides, as it does in the statement's own query.

_PARTITIONS = "partitions of the table"
_PARTITION_PLACE = "place among the partitions"
"""The relation of the partitions, and the column of a partition's number in it; no table and no column can have these names."""


def within_of(context: Context, target: WriteTarget, query: exp.Select) -> Within | None:
    """Returns what chooses the partitions; None where the condition says nothing of them alone.

    Args:
        query: a query of the table alone, with the statement's condition.
    """
    alias, schema = query.args["from_"].this.alias_or_name, target.schema
    condition = query.args["where"].this
    parts = condition.flatten() if isinstance(condition, exp.And) else [condition]
    deciding = [part.copy() for part in parts if _decides(part, alias, schema.partition_by)]
    if not deciding:
        return None
    table = exp.table_(_PARTITIONS, quoted=True, alias=exp.to_identifier(alias, quoted=True))
    asked = exp.select(exp.column(_PARTITION_PLACE, quoted=True)).from_(table).where(*deciding)

    def within(partitions: Collection[Partition]) -> Collection[Partition]:
        every = list(partitions)
        rows = as_rows(schema, every).append_column(_PARTITION_PLACE, numbers(np.arange(len(every))))
        try:
            found = select.run(context, asked, {}, {_PARTITIONS: rows}, {_PARTITIONS: schema})
        except InvalidArgument:  # a value that cannot be compared, of a partition whose rows may not even be looked at
            return every
        return {every[int(place)] for place in found.table.columns[0].to_numpy()}

    return within


def _decides(part: exp.Expr, alias: str, names: Collection[str]) -> bool:
    """Whether this part of a condition is known of a partition as a whole, and always the same."""
    columns = list(part.find_all(exp.Column))
    own = all(not column.db and column.table.lower() in ("", alias.lower()) for column in columns)
    known = {name.lower() for name in names}
    among = all(isinstance(column.this, exp.Identifier) and column.name.lower() in known for column in columns)
    return bool(columns) and own and among and all(type(node).__name__ in STEADY for node in part.walk())


T = TypeVar("T")
R = TypeVar("R")


def append(target: WriteTarget, given: Given) -> AffectedRows:
    result = target.client.direct.append(given)
    return _affected(target, result, result.rows_inserted)


def completed(target: WriteTarget, given: Rows | RowParts) -> Iterable[pa.Table]:
    """The rows as they are stored; those of parts as they are read."""
    if isinstance(given, RowParts):
        return (target.client.completed(part, user=target.user) for part in given.tables())
    return [target.client.completed(given, user=target.user)]


def overwrite_directly(target: WriteTarget, given: Given | None) -> AffectedRows:
    """Replaces all rows; None truncates."""
    if given is None:
        result = target.client.direct.overwrite([], operation="TRUNCATE")
        return _affected(target, result, result.rows_deleted)
    result = target.client.direct.overwrite(given)
    return _affected(target, result, result.rows_inserted)


def update_directly(context: Context, target: WriteTarget, query: exp.Select, assignments: Sequence[Assignment]) -> AffectedRows:
    """Args:
    query: a `revision_query` with its condition.
    """
    decide = UpdateFile(FileQuery.of(context, target, query), Reviser.of(context, target, assignments), lambda: context.engine)
    result = _edited(context, target, query, decide, "UPDATE")
    return _affected(target, result, result.rows_updated)


def delete_directly(context: Context, target: WriteTarget, query: exp.Select) -> AffectedRows:
    """Args:
    query: anything of the rows that go.
    """
    decide = DeleteFile(FileQuery.of(context, target, query.select(append=False)), lambda: context.engine)
    result = _edited(context, target, query, decide, "DELETE")
    return _affected(target, result, result.rows_deleted)


def _edited(
    context: Context, target: WriteTarget, query: exp.Select, decide: UpdateFile | DeleteFile, operation: str
) -> DirectResult:
    return target.client.direct.edit(
        _spread(context, decide) or decide,
        operation=operation,
        predicate=query.args["where"].this.sql("duckdb"),
        bounds=select.pushdown_on(context, query, target.table).bounds,
        within=within_of(context, target, query) or "",
    )


def _spread(context: Context, decide: UpdateFile | DeleteFile) -> Spread | None:
    """Tasks of Spark for the operator's statements. Texts of others never run in an executor (docs/decisions/0029)."""
    warehouse, services = context.warehouse, context.services
    if not services.trusts(context.principal):
        return None
    one = msgspec.structs.replace(warehouse.settings.sql, threads=1)
    there = replace(decide, engine=partial(engine_of_process, one))

    clock, large = warehouse.clock, warehouse.settings.flush.large_scope_bytes
    return Spread(lambda work, items: services.operator().in_tasks(work, items), decide, large, there, clock(), clock)


def _affected(target: WriteTarget, result: DirectResult, rows: int) -> AffectedRows:
    return target.affected(rows, result.version if result.committed else None)
