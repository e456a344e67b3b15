"""Finds the columns of one table that an expression depends on, those included that its subqueries take from outside."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator

from sqlglot import exp

ColumnsOf = Callable[[exp.Table], Container[str] | None]
"""The columns, in lower case, of a table that a subquery reads; None where they are not known."""


def columns_in(part: exp.Expr, names: Container[str], columns: Container[str], columns_of: ColumnsOf) -> Iterator[str]:
    """Returns names in lower case. What is no known column of the table is returned as it is written.

    Args:
        part: an expression that is no part of another one.
        names: those of the table, by which it may be qualified.
        columns: the table's.
    """
    ctes = frozenset(each.alias.lower() for each in part.find_all(exp.CTE))
    for star in part.find_all(exp.Star, exp.Columns):
        if star.find_ancestor(exp.Query) is None and not isinstance(star.parent, exp.Count):
            yield star.sql()
    for column in part.find_all(exp.Column):
        if _is_inner(column, ctes, columns_of):
            continue
        table, name = column.table.lower(), column.name.lower()
        if table and table not in names:  # the field of a column, unless it is unknown
            yield table
        else:
            yield name if name in columns else column.sql()


def _is_inner(column: exp.Column, ctes: Container[str], columns_of: ColumnsOf) -> bool:
    """Whether it is a column of a subquery around it."""
    query = column.find_ancestor(exp.Query)
    while query is not None:
        if any(_has(source, column, ctes, columns_of) for source in _sources(query)):
            return True
        query = query.find_ancestor(exp.Query)
    return False


def _sources(query: exp.Query) -> Iterator[exp.Expr]:
    from_ = query.args.get("from_")
    if from_ is not None:
        yield from_.this
        yield from (join.this for join in from_.this.args.get("joins") or ())
    yield from (join.this for join in query.args.get("joins") or ())
    yield from query.args.get("laterals") or ()


def _has(source: exp.Expr, column: exp.Column, ctes: Container[str], columns_of: ColumnsOf) -> bool:
    """Whether the source has this column, or may have it."""
    if column.table:
        apart = isinstance(source, exp.Table) and source.db and column.args.get("db") and _place(source) != _place(column)
        return source.alias_or_name.lower() == column.table.lower() and not apart
    if not (isinstance(source, exp.Table) and isinstance(source.this, exp.Identifier)):
        return True
    if not source.db and source.name.lower() in ctes:
        return True
    known = columns_of(source)
    return known is None or column.name.lower() in known


def _place(node: exp.Table | exp.Column) -> str:
    """The namespace that it names."""
    return node.text("db").lower()
