"""Converts literals that are compared with columns to the form that the column stores: UUIDs in lower case, a TIME as
microseconds. DuckDB then compares values of the same form.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from lakewarden.catalog.column_types import ColumnType
from lakewarden.catalog.column_values import convert
from lakewarden.catalog.model import TableSchema

Schemas = Mapping[int, TableSchema]
"""The schemas of a query's tables, by the `id` of the node that names each."""

_KEPT_OTHERWISE = frozenset({"UUID", "TIME"})
_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ)
_WRITTEN = frozenset({exp.DType.UUID, exp.DType.TIME, exp.DType.TEXT, exp.DType.VARCHAR})
_DEEPEST = 32


def take_kept_forms(query: exp.Query, columns: ColumnTypes) -> None:
    """Converts such literals of a query to their columns' form."""
    wanted = {
        column.type for schema in columns.schemas.values() for column in schema.columns if column.type.name in _KEPT_OTHERWISE
    }
    if wanted:
        for node in list(query.find_all(*_COMPARISONS, exp.Between, exp.In, exp.Case)):
            for column, values in _compared(node):
                kind = columns.type_of(column)
                if kind is not None and kind in wanted:
                    _rewrite(values, kind)


def _compared(node: exp.Expr) -> Iterator[tuple[exp.Column, Sequence[exp.Expr]]]:
    """A column, and what it is compared with."""
    match node:
        case exp.Between(this=exp.Column() as column):
            yield column, (node.args["low"], node.args["high"])
        case exp.In(this=exp.Column() as column):
            yield column, tuple(node.expressions)
        case exp.Case(this=exp.Column() as column):
            yield column, tuple(each.this for each in node.args["ifs"])
        case exp.Binary(this=one, expression=other):
            yield from ((column, (value,)) for column, value in ((one, other), (other, one)) if isinstance(column, exp.Column))
        case _:
            pass  # compares no column


def _rewrite(values: Sequence[exp.Expr], kind: ColumnType) -> None:
    for value in values:
        inner = value.unnest()
        literal = inner.this if isinstance(inner, exp.Cast) and inner.to.this in _WRITTEN else inner
        if isinstance(literal, exp.Literal) and literal.is_string:
            try:
                kept = convert(kind, str(literal.this))
            except ValueError:
                continue  # DuckDB reports the error
            value.replace(exp.convert(kept))


@dataclass(frozen=True)
class ColumnTypes:
    """From which column of a table a query's column comes, and so which type it has."""

    schemas: Schemas
    known: dict[tuple[int, str, str], frozenset[ColumnType]] = field(default_factory=dict)
    """By SELECT, column and source: CTEs that name the one before twice are 2 to the power of their number ways to a column."""

    def type_of(self, column: exp.Column) -> ColumnType | None:
        """The type of the table's column that a query's column comes from; None if it is ambiguous."""
        return self._found(column, column.name, column.table.lower(), _DEEPEST)

    def _found(self, at: exp.Expr, name: str, source: str, depth: int) -> ColumnType | None:
        """Searches the SELECT around the node, then the enclosing ones, as SQL's scoping does."""
        select = at.find_ancestor(exp.Select)
        while select is not None and depth:
            found = self._of_select(select, name.lower(), source, depth)
            if found:
                return next(iter(found)) if len(found) == 1 else None
            select = select.find_ancestor(exp.Select)
        return None

    def _of_select(self, select: exp.Select, name: str, source: str, depth: int) -> frozenset[ColumnType]:
        place = (id(select), name, source)
        if place not in self.known:
            named = (each for each in _sources(select) if source in ("", each.alias_or_name.lower()))
            kinds = {self._of_source(each, name, depth) for each in named}
            self.known[place] = frozenset(kind for kind in kinds if kind is not None)
        return self.known[place]

    def _of_source(self, source: exp.Expr, name: str, depth: int) -> ColumnType | None:
        alias = source.args.get("alias")
        if isinstance(alias, exp.TableAlias) and alias.columns:
            return None
        schema = self.schemas.get(id(source))
        if schema is not None:
            return next((each.type for each in schema.columns if each.name.lower() == name.lower()), None)
        inner = source.this if isinstance(source, exp.Subquery) else _cte(source)
        return None if inner is None else self._of_query(inner, name, depth - 1)

    def _of_query(self, query: exp.Expr, name: str, depth: int) -> ColumnType | None:
        query = query.unnest()
        if isinstance(query, exp.SetOperation):
            left, right = self._of_query(query.this, name, depth), self._of_query(query.expression, name, depth)
            return left if left == right else None
        if not isinstance(query, exp.Select) or not depth:
            return None
        for each in query.expressions:
            inner = each.unalias()
            if each.alias_or_name.lower() == name.lower() and isinstance(inner, exp.Column):
                return self._found(inner, inner.name, inner.table.lower(), depth)
        stars = [each for each in query.expressions if each.is_star and not each.args.get("replace")]
        return self._found(stars[0], name, stars[0].text("table").lower(), depth) if len(stars) == 1 else None


def _sources(select: exp.Select) -> Iterator[exp.Expr]:
    for part in (select.args.get("from_"), *(select.args.get("joins") or ())):
        if part is not None:
            yield part.this


def _cte(table: exp.Expr) -> exp.Expr | None:
    """The query of the CTE that a name in FROM refers to."""
    node = table.parent
    while isinstance(table, exp.Table) and node is not None:
        with_ = node.args.get("with_")
        if isinstance(with_, exp.With):
            for each in with_.expressions:
                if each.alias.lower() == table.name.lower():
                    return None if each.args["alias"].columns or with_.recursive else each.this
        node = node.parent
    return None
