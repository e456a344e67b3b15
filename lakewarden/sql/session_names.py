"""The functions of the session and of the time, as sqlglot's trees name them."""

from __future__ import annotations

from sqlglot import exp

MOMENTS = frozenset({"NOW", "CURRENT_TIMESTAMP", "GET_CURRENT_TIMESTAMP", "TRANSACTION_TIMESTAMP"})
DAYS = frozenset({"CURRENT_DATE", "TODAY"})
USERS = frozenset({"CURRENT_USER", "SESSION_USER"})
MADE = {"SNOWFLAKE_ID": "BIGINT", "ULID": "TEXT"}
"""Not functions of DuckDB, and the types of their values. Each call makes one value."""
IDS = {"UUID_V7": "uuidv7", "GENERATE_UUID": "uuidv4"}
"""By the names that DuckDB has for them."""

_WITHOUT_BRACKETS = MOMENTS - {"NOW"} | DAYS - {"TODAY"} | USERS
_SQLGLOT: dict[type[exp.Expr], str] = {
    exp.CurrentTimestamp: "NOW",
    exp.CurrentDate: "TODAY",
    exp.CurrentUser: "CURRENT_USER",
    exp.SessionUser: "SESSION_USER",
}


def name_of(node: exp.Expr) -> str:
    """The function that a node calls, in upper case, also where it is a word without brackets; "" for any other node."""
    if isinstance(node, exp.Anonymous):
        return str(node.this).upper()
    if isinstance(node, exp.Column):
        bare = not node.table and isinstance(node.this, exp.Identifier) and not node.this.quoted
        return node.name.upper() if bare and node.name.upper() in _WITHOUT_BRACKETS else ""
    return _SQLGLOT.get(type(node), "") if isinstance(node, exp.Func) else ""
