"""Replaces functions of the session and of the time by their values: DuckDB's own would describe its process."""

from __future__ import annotations

from datetime import datetime

from sqlglot import exp

from lakewarden.catalog.model import SchemaColumn
from lakewarden.catalog.types import ColumnType
from lakewarden.errors import InvalidArgument
from lakewarden.rows.defaults import Defaults
from lakewarden.sql.context import Context

_MADE = {"SNOWFLAKE_ID": "BIGINT", "ULID": "TEXT"}
"""Not functions of DuckDB. Each call makes one value, so it is allowed only where it is evaluated for one row."""

_RENAMED = {"UUID_V7": "uuidv7", "GENERATE_UUID": "uuidv4"}
_MOMENTS = {"NOW", "CURRENT_TIMESTAMP", "GET_CURRENT_TIMESTAMP", "TRANSACTION_TIMESTAMP"}
_DAYS = {"CURRENT_DATE", "TODAY"}
_NAMES = {"CURRENT_USER", "SESSION_USER"}


def with_session_values(context: Context, query: exp.Query) -> exp.Query:
    """Puts the session's user and the statement's time into the query; changes the given tree.

    Raises:
        InvalidArgument: SNOWFLAKE_ID() or ULID() where one call is evaluated for many rows.
    """
    now = context.warehouse.clock()
    for node in list(query.find_all(exp.Func, exp.Column)):
        value = _value(context, _name_of(node), now, node)
        if value is not None:
            node.replace(_named_alike(node, value))
    return query


def _name_of(node: exp.Expr) -> str:
    if isinstance(node, exp.Anonymous):
        return str(node.this).upper()
    if isinstance(node, exp.Column):
        bare = not node.table and isinstance(node.this, exp.Identifier) and not node.this.quoted
        return node.name.upper() if bare and node.name.upper() in (_MOMENTS - {"NOW"} | _DAYS - {"TODAY"} | _NAMES) else ""
    return _SQLGLOT.get(type(node), "") if isinstance(node, exp.Func) else ""


_SQLGLOT: dict[type[exp.Expr], str] = {
    exp.CurrentTimestamp: "NOW",
    exp.CurrentDate: "TODAY",
    exp.CurrentUser: "CURRENT_USER",
    exp.SessionUser: "SESSION_USER",
}


def _value(context: Context, name: str, now: datetime, node: exp.Expr) -> exp.Expr | None:
    if name in _NAMES:
        return exp.Literal.string(context.principal.user)
    if name in _MOMENTS:
        return exp.cast(exp.Literal.string(now.isoformat(sep=" ")), "TIMESTAMPTZ")
    if name in _DAYS:
        return exp.cast(exp.Literal.string(now.date().isoformat()), "DATE")
    if name in _RENAMED:
        return exp.Anonymous(this=_RENAMED[name])
    return _made(context, name, now, node) if name in _MADE else None


def _made(context: Context, name: str, now: datetime, node: exp.Expr) -> exp.Expr:
    row = node.find_ancestor(exp.Values, exp.Select)
    if isinstance(row, exp.Select) and row.args.get("from_"):
        raise InvalidArgument(f"{name}() makes a single value; use it in VALUES, or leave the column to its default")
    warehouse = context.warehouse
    column = SchemaColumn(0, name, ColumnType.parse(_MADE[name]), True, f"{name}()")
    value = Defaults(warehouse.clock, warehouse.new_id, context.principal.user).values(column, 1, now)[0].as_py()
    return exp.convert(value)


def _named_alike(node: exp.Expr, value: exp.Expr) -> exp.Expr:
    """A projection keeps the name that DuckDB would have given it."""
    if isinstance(node.parent, exp.Select) and node.arg_key == "expressions":
        return exp.alias_(value, node.name or _name_of(node).lower(), quoted=True)
    return value
