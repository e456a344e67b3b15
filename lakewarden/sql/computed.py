"""Finds the parts of a statement that DuckDB computes."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from lakewarden.sql.statements.base import Statement
from lakewarden.sql.statements.rows import Assignment, Delete, Explain, Insert, Query, Subscribe, Update
from lakewarden.sql.statements.tables import CreateView

_PLAIN = (exp.Select, exp.Star, exp.From, exp.Values, exp.Tuple, exp.Literal, exp.Neg, exp.Null, exp.Boolean)


def queries_of(statement: Statement) -> Iterator[exp.Expr]:
    """Returns each as a query of its own."""
    match statement:
        case Query() | Explain() | Subscribe() | CreateView():
            yield statement.query
        case Insert():
            if statement.rows is not None and not _only_literals(statement.rows):
                yield statement.rows
            conflict = statement.conflict
            if conflict is not None:
                yield from _computed(conflict.assignments or (), conflict.where)
        case Update():
            yield from _computed(statement.assignments, statement.where)
        case Delete():
            yield from _computed((), statement.where)
        case _:
            pass  # computes nothing


def _only_literals(rows: exp.Query) -> bool:
    """Whether it is a VALUES of plain values: those have no name and no function to check."""
    return all(isinstance(node, _PLAIN) for node in rows.walk())


def _computed(assignments: tuple[Assignment, ...], where: exp.Expr | None) -> Iterator[exp.Expr]:
    values = [each.value.copy() for each in assignments] + ([] if where is None else [where.copy()])
    if values:
        yield exp.select(*values, copy=False)
