"""RETURNING: what a statement answers with of the rows that it writes or removes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from lakewarden.catalog.model import Table
from lakewarden.errors import Unsupported
from lakewarden.sql.context import Context
from lakewarden.sql.queries import select
from lakewarden.sql.results import AffectedRows, ResultRows
from lakewarden.sql.writing.shapes import RowWrite, WritePlan
from lakewarden.sql.writing.target import WriteTarget, node_of
from lakewarden.tables.rows.intake import RowParts, Rows


class Returning:
    """What a statement says of its rows: how many there are, and what RETURNING makes of them. It is known before they are
    written, so that an expression which cannot be computed leaves nothing.
    """

    def __init__(self, context: Context, target: WriteTarget, statement: RowWrite) -> None:
        self.expressions, self.alias = statement.returning, statement.known_as
        self._context, self._table = context, target.table
        self._found: int | None = None
        self._adds_up = False
        self._rows: ResultRows | None = None

    def begin_parts(self) -> None:
        """At each attempt to write rows that come in parts, whose numbers add up."""
        self._found, self._adds_up = 0, True

    def note(self, rows: pa.Table) -> None:
        """Takes the rows with all their columns. A statement that meets other writers decides again: the last time counts."""
        self._found = rows.num_rows + (self._found or 0 if self._adds_up else 0)
        if self.expressions:
            query = _of_rows(self._table, self.expressions, self.alias)
            made = select.run(self._context, query, {self._table.name: rows})
            self._rows = ResultRows(made.table, made.types)  # how a query on a large table is carried out is not said of a write

    def split(self, found: ResultRows, names: Sequence[str]) -> pa.Table:
        """The first columns of a query, under these names; the expressions stand behind them."""
        rows, first = found.table, len(names)
        self._found = rows.num_rows
        if self.expressions:
            self._rows = ResultRows(rows.select(range(first, rows.num_columns)), found.types[first:])
        return rows.select(range(first)).rename_columns([*names])

    def check_in_memory(self, given: Rows | RowParts) -> None:
        """Raises Unsupported: the statement has RETURNING, and its rows are not in memory together."""
        if self.expressions and isinstance(given, RowParts):
            raise Unsupported("the rows are more than one result may have (sql.result_bytes): write them without RETURNING")

    def check_in_log(self, plan: WritePlan) -> None:
        """Raises Unsupported: the statement has RETURNING, and changes rows file by file."""
        if self.expressions and not plan.in_log:
            raise Unsupported(f"RETURNING is not supported of a write that goes straight into Delta, as here: {plan.why}")

    def of(self, affected: AffectedRows) -> AffectedRows:
        return replace(affected, found=self._found, returned=self._rows)


def described_returning(context: Context, statement: RowWrite) -> ResultRows:
    """The columns of what RETURNING answers with, without rows: nothing is written."""
    return select.described_query(context, _of_rows(context.table(statement.table), statement.returning, statement.known_as))


def _of_rows(table: Table, expressions: Sequence[exp.Expr], alias: str) -> exp.Select:
    return exp.select(*(each.copy() for each in expressions), copy=False).from_(node_of(table, alias), copy=False)
