"""What a query needs of each table: which columns, and between which bounds. Too much is slower; too little would be wrong.

So every doubt means all columns and no bounds. DuckDB applies the whole condition again to what was read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from lakewarden.catalog.model import TableSchema
from lakewarden.delta.bounds import Bound
from lakewarden.sql.relations import SEQ

_FLIPPED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.LT: exp.GT,
    exp.GT: exp.LT,
    exp.LTE: exp.GTE,
    exp.GTE: exp.LTE,
    exp.EQ: exp.EQ,
}
_WHOLE = frozenset({"SMALLINT", "INT", "BIGINT"})


@dataclass(frozen=True)
class Needs:
    """`columns` are the table's, `_seq` among them where the query names it."""

    columns: tuple[str, ...]
    bounds: tuple[Bound, ...] = ()


def needs_of(query: exp.Query, places: Sequence[exp.Table], schema: TableSchema) -> Needs:
    """What a query needs of one table, which stands in it at `places`."""
    names = {node.name.lower() for node in query.find_all(exp.Identifier)}
    every = _takes_all(query, places)
    columns = (
        tuple(name for name in schema.names if every or name.lower() in names) or schema.primary_key[:1] or (schema.names[0],)
    )
    bounds = tuple(_bounds(places[0], schema)) if len(places) == 1 else ()
    return Needs((*columns, SEQ) if SEQ in names else columns, bounds)


def _takes_all(query: exp.Query, places: Sequence[exp.Table]) -> bool:
    if any(not isinstance(star.parent, exp.Count) for star in query.find_all(exp.Star)):
        return True
    if next(query.find_all(exp.Columns, exp.Pivot), None) or any(join.method == "NATURAL" for join in query.find_all(exp.Join)):
        return True
    if next(query.find_all(exp.Placeholder, exp.Parameter), None):
        return True
    aliases = {place.alias_or_name.lower() for place in places}
    return any(not column.table and column.name.lower() in aliases for column in query.find_all(exp.Column))


def hide_seq(tables: Sequence[exp.Table]) -> None:
    """`*` over a table that comes with `_seq` leaves it out."""
    for table in tables:
        select = table.find_ancestor(exp.Select)
        if select is None:
            continue
        for projection in select.expressions:
            qualified = isinstance(projection, exp.Column) and isinstance(projection.this, exp.Star)
            star = projection.this if qualified else projection
            ours = not qualified or projection.table.lower() == table.alias_or_name.lower()
            if isinstance(star, exp.Star) and ours and not _leaves_out(star):
                star.set("except_", [*(star.args.get("except_") or ()), exp.to_identifier(SEQ)])


def _leaves_out(star: exp.Star) -> bool:
    return any(each.name.lower() == SEQ for each in star.args.get("except_") or ())


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
    if isinstance(part, exp.Between) and not part.args.get("symmetric"):
        name, low = _column(part.this, alias, alone, schema), _literal(part.args["low"])
        high = _literal(part.args["high"])
        return _fitting(schema, name, low, high) if name and low is not None and high is not None else None
    if isinstance(part, exp.In) and part.expressions:
        name, values = _column(part.this, alias, alone, schema), [_literal(each) for each in part.expressions]
        whole = [value for value in values if isinstance(value, int)]
        return _fitting(schema, name, min(whole), max(whole)) if name and len(whole) == len(values) else None
    if type(part) not in _FLIPPED:
        return None
    kind: type[exp.Expr] = type(part)
    left, right = part.this, part.expression
    if _literal(left) is not None:
        kind, left, right = _FLIPPED[kind], right, left
    name, value = _column(left, alias, alone, schema), _literal(right)
    if name is None or value is None:
        return None
    return _fitting(
        schema, name, value if kind in (exp.EQ, exp.GT, exp.GTE) else None, value if kind in (exp.EQ, exp.LT, exp.LTE) else None
    )


def _column(node: exp.Expr, alias: str, alone: bool, schema: TableSchema) -> str | None:
    """The table's column that the node is; None where it could be another's."""
    if not isinstance(node, exp.Column) or node.args.get("db") or not (node.table.lower() == alias or (alone and not node.table)):
        return None
    return next((name for name in schema.names if name.lower() == node.name.lower()), None)


def _literal(node: exp.Expr) -> int | str | None:
    sign = -1 if isinstance(node, exp.Neg) else 1
    literal = node.this if isinstance(node, exp.Neg) else node
    if not isinstance(literal, exp.Literal):
        return None
    if literal.is_string:
        return str(literal.this) if sign == 1 else None
    return sign * int(literal.this) if literal.is_int else None


def _fitting(schema: TableSchema, name: str, low: int | str | None, high: int | str | None) -> Bound | None:
    """Only where the statistics and DuckDB compare alike: whole numbers, and text."""
    column = schema.column(name)
    values = [value for value in (low, high) if value is not None]
    kind = int if column and column.type.name in _WHOLE else str if column and column.type.name in ("TEXT",) else None
    return Bound(name, low, high) if kind and all(type(value) is kind for value in values) else None
