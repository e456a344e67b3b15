"""Finds what a query needs of each table: which columns, within which bounds. Too much is slower; too little would be wrong.

So every doubt means all columns and no bounds. DuckDB applies the whole condition again to the rows that were read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from lakewarden.catalog.model import SchemaColumn, TableSchema
from lakewarden.delta.reading.bounds import Bound, Value
from lakewarden.sql.queries.literals import value_of
from lakewarden.sql.relations import SEQ

if TYPE_CHECKING:
    from lakewarden.tables.strong_read import ReadSelection

_FLIPPED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.LT: exp.GT,
    exp.GT: exp.LT,
    exp.LTE: exp.GTE,
    exp.GTE: exp.LTE,
    exp.EQ: exp.EQ,
}


@dataclass(frozen=True)
class Pushdown:
    """`columns` are the table's, `_seq` among them where the query names it."""

    columns: tuple[str, ...]
    bounds: tuple[Bound, ...] = ()
    number_only: bool = False
    """Whether the query names no column of the table: only the number of its rows counts, as for `count(*)`."""

    @property
    def selection(self) -> ReadSelection:
        """The part of the table to read."""
        from lakewarden.tables.strong_read import ReadSelection  # imports Delta, which a query without tables does not need

        return ReadSelection(self.columns, self.bounds, self.number_only)


def pushdown_of(query: exp.Query, places: Sequence[exp.Table], schema: TableSchema) -> Pushdown:
    """What a query needs of one table, which it names at `places`."""
    names = {node.name.lower() for node in query.find_all(exp.Identifier)}
    every = _takes_all(query, places)
    shown = {column.name for column in schema.shown} if every else ()
    named = tuple(name for name in schema.names if name in shown or name.lower() in names)
    if not named and SEQ not in names:
        return Pushdown(schema.primary_key[:1] or (schema.names[0],), number_only=True)
    columns = named or schema.primary_key[:1] or (schema.names[0],)
    bounds = tuple(_bounds(places[0], schema)) if len(places) == 1 else ()
    return Pushdown((*columns, SEQ) if SEQ in names else columns, bounds)


def _takes_all(query: exp.Query, places: Sequence[exp.Table]) -> bool:
    if any(not isinstance(star.parent, exp.Count) for star in query.find_all(exp.Star)):
        return True
    if next(query.find_all(exp.Columns, exp.Pivot), None) or any(join.method == "NATURAL" for join in query.find_all(exp.Join)):
        return True
    if next(query.find_all(exp.Placeholder, exp.Parameter), None):
        return True
    aliases = {place.alias_or_name.lower() for place in places}
    return any(not column.table and column.name.lower() in aliases for column in query.find_all(exp.Column))


def hide(name: str, tables: Sequence[exp.Table]) -> None:
    """Excludes a hidden column from `*` over tables that include it."""
    selects: dict[int, tuple[exp.Select, set[str]]] = {}
    for table in tables:
        select = table.find_ancestor(exp.Select)
        if select is not None:
            selects.setdefault(id(select), (select, set()))[1].add(table.alias_or_name.lower())
    for select, names in selects.values():
        for projection in select.expressions:
            qualified = isinstance(projection, exp.Column) and isinstance(projection.this, exp.Star)
            star = projection.this if qualified else projection
            ours = not qualified or projection.table.lower() in names
            left_out = (star.args.get("except_") or ()) if isinstance(star, exp.Star) else ()
            if isinstance(star, exp.Star) and ours and not any(each.name.lower() == name for each in left_out):
                star.set("except_", [*left_out, exp.to_identifier(name, quoted=True)])


def _bounds(place: exp.Table, schema: TableSchema) -> Iterator[Bound]:
    """From the conditions of the SELECT that reads the table itself."""
    select = place.find_ancestor(exp.Select)
    where = None if select is None else select.args.get("where")
    if select is None or where is None or not isinstance(place.parent, (exp.From, exp.Join)):
        return
    alone = not select.args.get("joins") and not select.args.get("laterals")
    for part in where.this.flatten() if isinstance(where.this, exp.And) else [where.this]:
        bound = _bound(part.unnest(), place.alias_or_name.lower(), alone, schema)
        if bound is not None:
            yield bound


def _bound(part: exp.Expr, alias: str, alone: bool, schema: TableSchema) -> Bound | None:
    """The bounds that one condition sets on one column; None if they cannot be derived."""
    # `5 < x` is read as `x > 5`.
    swapped = type(part) in _FLIPPED and not isinstance(part.this, exp.Column)
    column = _column(part.expression if swapped else part.this, alias, alone, schema)
    if column is None:
        return None

    def value(node: exp.Expr) -> Value | None:
        return value_of(node, column.type)

    match part:
        case exp.Between() if not part.args.get("symmetric"):
            first, last = value(part.args["low"]), value(part.args["high"])
            return None if first is None or last is None else Bound(column.name, first, last)
        case exp.In() if part.expressions and (values := [value(each) for each in part.expressions]):
            # One value without a bound, and any row may be equal to that one.
            known = sorted((each for each in values if each is not None), key=_order)
            return Bound(column.name, known[0], known[-1], tuple(known)) if len(known) == len(values) else None
        case _:
            kind = _FLIPPED.get(type(part)) if swapped else type(part)
            end = value(part.this if swapped else part.expression) if kind in _FLIPPED else None
            # A strict comparison bounds as an inclusive one does: bounds choose files, and the query compares the rows again.
            low, high = kind in (exp.EQ, exp.GT, exp.GTE), kind in (exp.EQ, exp.LT, exp.LTE)
            return None if end is None else Bound(column.name, end if low else None, end if high else None)


def _order(value: Value) -> Any:
    """Text is compared by its UTF-8 bytes."""
    return value.encode() if isinstance(value, str) else value


def _column(node: object, alias: str, alone: bool, schema: TableSchema) -> SchemaColumn | None:
    """The table's column that the node refers to; None if it could be another table's."""
    if not isinstance(node, exp.Column) or node.args.get("db") or not (node.table.lower() == alias or (alone and not node.table)):
        return None
    return next((column for column in schema.columns if column.name.lower() == node.name.lower()), None)
