"""A query of a table that runs over the rows of one file at a time, in this process or in a task. Picklable."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from lakewarden.base.arrays import numbers
from lakewarden.catalog.model import TableSchema
from lakewarden.sql.context import Context
from lakewarden.sql.handlers.writing.revision import Reviser
from lakewarden.sql.handlers.writing.target import WriteTarget
from lakewarden.sql.queries import select
from lakewarden.sql.queries.scan import for_duck
from lakewarden.sql.query_engine.engine import Limits, QueryEngine
from lakewarden.sql.results import ResultRows
from lakewarden.tables.direct.value import Edit
from lakewarden.tables.rows.columns import single

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
        found = engine.run(self.sql, {**self.others, FILE: numbered}, self.limits)
        return ResultRows(found.rows, found.types)


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
