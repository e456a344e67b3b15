"""A statement that is sent with many rows of parameters, as few statements: one INSERT is one write, many are many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from lakewarden.sql.statements.base import Statement
from lakewarden.sql.statements.rows import Insert


def joined(statements: Sequence[Statement]) -> list[Statement]:
    """The same statements; those that insert VALUES into one table in one way are one, with the rows of all."""
    inserts = [one for one in statements if isinstance(one, Insert)]
    if len(inserts) < 2 or len(inserts) < len(statements) or len({_values(one) is not None for one in inserts}) > 1:
        return list(statements)
    first = inserts[0]
    if any(replace(one, rows=None) != replace(first, rows=None) for one in inserts) or _values(first) is None or first.files:
        return list(statements)
    assert first.rows is not None, "it has VALUES"
    rows = first.rows.copy()
    values = rows.args["from_"].this
    values.set("expressions", [row.copy() for one in inserts for row in _rows(one)])
    return [replace(first, rows=rows)]


def _values(statement: Insert) -> exp.Values | None:
    """The VALUES of an INSERT that has nothing else."""
    source = None if statement.rows is None else statement.rows.args.get("from_")
    return source.this if source is not None and isinstance(source.this, exp.Values) else None


def _rows(statement: Insert) -> list[exp.Expr]:
    found = _values(statement)
    return [] if found is None else found.expressions
