"""Carries out statements straight in Delta, past the write log: by one commit each (operations/direct)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from lakewarden.arrays import numbers
from lakewarden.operations.direct.value import Decide, DirectResult, Edit
from lakewarden.operations.reading.scope import Wanted
from lakewarden.rows.columns import single
from lakewarden.rows.intake import Rows
from lakewarden.scope import TableName
from lakewarden.sql.context import Context
from lakewarden.sql.handlers.writing.revision import revised
from lakewarden.sql.handlers.writing.target import Target, wanted_by
from lakewarden.sql.queries import select
from lakewarden.sql.queries.scan import for_duck
from lakewarden.sql.relations import SYSTEM
from lakewarden.sql.results import Affected
from lakewarden.sql.results import Rows as Found
from lakewarden.sql.statements.rows import Assignment
from lakewarden.table import TableClient
from lakewarden.warehouse import find_table

_FILE = "rows of a file"
"""The relation of the rows that an edit looks at; no table can have this name."""
_PLACE = "place in the file"
"""The column of a row's number in it, from 0."""


def append(target: Target, given: Rows) -> Affected:
    result = target.client.direct.append([target.client.completed(given, user=None)])
    return _affected(target, result, result.rows_inserted)


def overwrite_directly(target: Target, rows: pa.Table | None) -> Affected:
    """Replaces all rows; None truncates."""
    if rows is None:
        result = target.client.direct.overwrite([], operation="TRUNCATE")
        return _affected(target, result, result.rows_deleted)
    result = target.client.direct.overwrite([rows])
    return _affected(target, result, rows.num_rows)


def update_directly(context: Context, target: Target, query: exp.Select, assignments: Sequence[Assignment]) -> Affected:
    """Args:
    query: a `revision_query` with its condition.
    """
    rows_in = _FileQuery.of(context, target, query)

    def decide(rows: pa.Table) -> Edit:
        found = rows_in.run(rows)
        made, differs = revised(context, target, found, assignments)
        places = rows_in.places(found)
        return Edit(places.filter(differs), made.filter(differs)) if made.num_rows else Edit(places, made)

    result = _edited(context, target, query, decide, "UPDATE")
    return _affected(target, result, result.rows_updated)


def delete_directly(context: Context, target: Target, query: exp.Select) -> Affected:
    """Args:
    query: anything of the rows that go.
    """
    rows_in = _FileQuery.of(context, target, query.select(append=False))

    def decide(rows: pa.Table) -> Edit:
        return Edit(rows_in.places(rows_in.run(rows)), rows.slice(0, 0).select(target.schema.names))

    result = _edited(context, target, query, decide, "DELETE")
    return _affected(target, result, result.rows_deleted)


def _edited(context: Context, target: Target, query: exp.Select, decide: Decide, operation: str) -> DirectResult:
    bounds = wanted_by(context, query, target.table).bounds
    condition = query.args["where"].this.sql("duckdb")
    return target.client.direct.edit(decide, operation=operation, predicate=condition, bounds=bounds)


def _affected(target: Target, result: DirectResult, rows: int) -> Affected:
    return target.affected(rows, result.version if result.committed else None)


@dataclass(frozen=True)
class _FileQuery:
    """A query of the table that runs over the rows of one file at a time. What its subqueries read is read once."""

    context: Context
    target: Target
    query: exp.Select
    read: Mapping[TableName, pa.Table]

    @classmethod
    def of(cls, context: Context, target: Target, query: exp.Select) -> _FileQuery:
        made = query.copy()
        table = made.args["from_"].this
        alias = table.alias_or_name
        for column in list(made.find_all(exp.Column)):
            if column.args.get("db") and (column.db.lower(), column.table.lower()) == (table.db.lower(), table.name.lower()):
                column.set("db", None)
        table.replace(exp.table_(_FILE, quoted=True, alias=exp.to_identifier(alias, quoted=True)))
        made.select(exp.column(_PLACE, alias, quoted=True), copy=False)
        needed = select.prepare(context, made, {_FILE}).pushdowns
        here = {each: part for each, part in needed.items() if each.as_of is None and each.table.namespace != SYSTEM}
        read = {each.table: _scanned(context, each.table, Wanted(part.columns, part.bounds)) for each, part in here.items()}
        return cls(context, target, made, read)

    def run(self, rows: pa.Table) -> Found:
        schema = self.target.schema
        numbered = for_duck(rows.append_column(_PLACE, numbers(np.arange(rows.num_rows))), schema)
        return select.run(self.context, self.query, self.read, {_FILE: numbered}, {_FILE: schema})

    @staticmethod
    def places(found: Found) -> pa.Array[Any]:
        """The numbers of the rows that were found, which are its last column."""
        return single(_PLACE, found.table.columns[-1])


def _scanned(context: Context, name: TableName, wanted: Wanted) -> pa.Table:
    table = find_table(context.catalog, name)
    return TableClient.of(context.warehouse, table).scan(wanted, user=context.owner(table), freshness=context.freshness)
