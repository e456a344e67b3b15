"""The rows of an INSERT of VALUES, and which of their values need no DuckDB: they call nothing, and name nothing. And literals
that are no values, in every statement."""

from __future__ import annotations

import math
import re
from contextlib import suppress
from decimal import Decimal

from sqlglot import exp

from lakewarden.errors import ConstraintViolation, InvalidArgument

# The functions of the session and of the time, as sqlglot's trees name them.
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


_ONLY_VALUES = {"expressions", "from_"}
"""The parts of a query that has nothing but its VALUES."""

_LITERALS = (exp.Literal, exp.Null, exp.Boolean)
_TYPED = frozenset({exp.DType.DATE, exp.DType.TIMESTAMPNTZ, exp.DType.TIMESTAMPTZ})
_OURS = MOMENTS | DAYS | USERS | MADE.keys() | IDS.keys()
_CALLS = (exp.CurrentTimestamp, exp.CurrentDate, exp.CurrentUser, exp.SessionUser, exp.Uuid)


def values_of(rows: exp.Query) -> exp.Values | None:
    """The VALUES of `SELECT * FROM VALUES …`, which the grammar makes of them; None for any other query."""
    source = rows.args.get("from_")
    if source is None or not isinstance(source.this, exp.Values) or source.this.args.get("alias"):
        return None
    shown, parts = rows.expressions, {name for name, part in rows.args.items() if part}
    whole = [type(each) for each in shown] == [exp.Star] and not any(shown[0].args.values())
    return source.this if whole and parts == _ONLY_VALUES else None


def cells_of(row: exp.Expr) -> list[exp.Expr]:
    return row.expressions if isinstance(row, exp.Tuple) else [row]


def is_plain(cell: exp.Expr) -> bool:
    """Whether it is a literal, `DATE '…'`, `TIMESTAMP '…'`, DEFAULT, or a function of the session or of the time."""
    if isinstance(cell, _LITERALS) or is_default(cell) or is_own_function(cell):
        return True
    if isinstance(cell, (exp.Neg, exp.Paren)):
        return is_plain(cell.this)
    return type(cell) is exp.Cast and cell.to.this in _TYPED and isinstance(cell.this, exp.Literal) and cell.this.is_string


def is_own_function(cell: exp.Expr) -> bool:
    """Whether it is a call without arguments, or a word, whose value the session or the clock gives."""
    if isinstance(cell, exp.Anonymous):
        return name_of(cell) in _OURS and not cell.expressions
    return (isinstance(cell, exp.Column) and name_of(cell) in _OURS) or (isinstance(cell, _CALLS) and not any(cell.args.values()))


def is_default(value: exp.Expr) -> bool:
    """Whether the node is the keyword DEFAULT, which sqlglot parses as a variable or a column."""
    bare = isinstance(value, exp.Column) and not value.table and isinstance(value.this, exp.Identifier) and not value.this.quoted
    return (bare or isinstance(value, exp.Var)) and value.name.upper() == "DEFAULT"


# Literals that DuckDB refuses without a word of where they stand, or takes for other values.
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/=]{4})*", re.ASCII)
_SAFE = 300
"""The most digits that a number in DOUBLE's range has on either side of the point."""


def number_of(text: str, column: str = "") -> int | Decimal:
    """The value of a number as it is written, exactly. `column` is the one that it is for, if any.

    Raises:
        ConstraintViolation: it is out of DOUBLE's range, where DuckDB would read infinity or zero.
        ValueError: it is not a decimal number.
    """
    wide = float(text)
    if math.isinf(wide) or (wide == 0 and any(digit in "123456789" for digit in text.lower().partition("e")[0])):
        ends = "up to 1.7976931348623157e308, and down to 4.9e-324"
        raise ConstraintViolation(f"{_place(column)}{text[:40]} is out of DOUBLE's range, which is 64 bits: {ends}")
    whole = text.lstrip("-").isdigit() and not (text.startswith("-") and not wide)  # those have no minus zero
    return int(text) if whole else Decimal(text)


def check_literals(query: exp.Expr, column: str = "") -> None:
    """Checks what the query has, or the value of a column.

    Raises:
        ConstraintViolation: a number is out of DOUBLE's range.
        InvalidArgument: the value of the column is text that is not base64.
    """
    value = query.unnest()
    if column and isinstance(value, exp.FromBase64) and value.this.is_string and not _BASE64.fullmatch(value.name):
        form = "four characters for each three bytes, as in 'AQI='"
        raise InvalidArgument(f"{_place(column)}FROM_BASE64 takes {form}, and not {value.name[:40]!r}")
    for literal in query.find_all(exp.Literal):
        if not literal.is_string and (len(text := str(literal.this)) > _SAFE or "e" in text.lower()):
            with suppress(ValueError):  # hexadecimal digits and the like
                number_of(text, column)


def _place(column: str) -> str:
    return f"column {column!r}: " if column else ""
