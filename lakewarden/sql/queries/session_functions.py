"""Replaces functions of the session and of the time by their values: DuckDB's own would describe its process."""

from __future__ import annotations

from datetime import date, datetime

from sqlglot import exp

from lakewarden.catalog.column_types import ColumnType
from lakewarden.catalog.model import SchemaColumn
from lakewarden.errors import InvalidArgument
from lakewarden.sql.context import Context
from lakewarden.sql.plain_values import DAYS, IDS, MADE, MOMENTS, USERS, name_of
from lakewarden.tables.rows.defaults import Defaults


def with_session_values(context: Context, query: exp.Query) -> exp.Query:
    """Puts the session's user and the statement's time into the query; changes the given tree.

    Raises:
        InvalidArgument: SNOWFLAKE_ID() or ULID() where one call is evaluated for many rows.
    """
    now = context.warehouse.clock()
    for node in list(query.find_all(exp.Func, exp.Column)):
        value = _node(context, name_of(node), now, node)
        if value is not None:
            node.replace(_named_alike(node, value))
    return query


def value_of(context: Context, name: str, now: datetime) -> object:
    """The value of a function of the session or of the time, which `name_of` names; None for any other."""
    if name in USERS:
        return context.principal.user
    if name in MOMENTS:
        return now
    if name in DAYS:
        return now.date()
    return _made(context, name, {**MADE, **dict.fromkeys(IDS, "TEXT")}[name], now) if name in MADE or name in IDS else None


def _node(context: Context, name: str, now: datetime, node: exp.Expr) -> exp.Expr | None:
    if name in IDS:
        return exp.Anonymous(this=IDS[name])
    if name in MADE:
        _check_alone(name, node)
    match value_of(context, name, now):
        case None:
            return None
        case datetime() as moment:
            return exp.cast(exp.Literal.string(moment.isoformat(sep=" ")), "TIMESTAMPTZ")
        case date() as day:
            return exp.cast(exp.Literal.string(day.isoformat()), "DATE")
        case value:
            return exp.convert(value)


def _check_alone(name: str, node: exp.Expr) -> None:
    row = node.find_ancestor(exp.Values, exp.Select)
    if isinstance(row, exp.Select) and row.args.get("from_"):
        raise InvalidArgument(f"{name}() makes a single value; use it in VALUES, or leave the column to its default")


def _made(context: Context, name: str, kind: str, now: datetime) -> object:
    warehouse = context.warehouse
    column = SchemaColumn(0, name, ColumnType.parse(kind), True, f"{name}()")
    return Defaults(warehouse.clock, warehouse.new_id, context.principal.user).values(column, 1, now)[0].as_py()


def _named_alike(node: exp.Expr, value: exp.Expr) -> exp.Expr:
    """A projection keeps the name that DuckDB would have given it."""
    if isinstance(node.parent, exp.Select) and node.arg_key == "expressions":
        return exp.alias_(value, node.name or name_of(node).lower(), quoted=True)
    return value
