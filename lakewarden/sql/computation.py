"""Finds the parts of a statement that DuckDB computes."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from lakewarden.sql.plain_values import cells_of, is_plain, values_of
from lakewarden.sql.statements.base import Statement
from lakewarden.sql.statements.rows import Delete, Explain, Insert, Merge, Overwrite, Query, Subscribe, Update
from lakewarden.sql.statements.tables import CreateTableAs, CreateView


def queries_of(statement: Statement) -> Iterator[exp.Expr]:
    """Returns each as a query of its own."""
    match statement:
        case Query() | Explain() | Subscribe() | CreateView() | CreateTableAs():
            yield statement.query
        case Insert() | Overwrite():
            yield from _rows_of(statement)
        case Update():
            yield from _computed(*(each.value for each in statement.assignments), statement.where)
        case Delete():
            yield from _computed(statement.where)
        case Merge():
            yield exp.select("*").from_(statement.source.copy(), copy=False)
            values = (value for when in statement.whens for value in (when.condition, *when.values))
            yield from _computed(statement.on, *values)
        case _:
            pass  # computes nothing


def _rows_of(statement: Insert | Overwrite) -> Iterator[exp.Expr]:
    if statement.rows is not None and not _only_plain(statement.rows):
        yield statement.rows
    conflict = statement.conflict if isinstance(statement, Insert) else None
    if conflict is not None:
        yield from _computed(*(each.value for each in conflict.assignments or ()), conflict.where)


def _only_plain(rows: exp.Query) -> bool:
    """Whether it is a VALUES that has no name and no function to check."""
    values = values_of(rows)
    return values is not None and all(is_plain(cell) for row in values.expressions for cell in cells_of(row))


def _computed(*expressions: exp.Expr | None) -> Iterator[exp.Expr]:
    values = [each.copy() for each in expressions if each is not None]
    if values:
        yield exp.select(*values, copy=False)
