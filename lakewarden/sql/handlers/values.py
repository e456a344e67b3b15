"""Evaluates the rows of VALUES to Python values, each on its own: one query would give a whole column one type.

Literals do not need DuckDB. It computes the other expressions together, as the columns of one row.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from sqlglot import exp

from lakewarden.catalog.model import SchemaColumn
from lakewarden.errors import InvalidArgument
from lakewarden.sql.context import Context
from lakewarden.sql.queries import select
from lakewarden.sql.queries.literals import number_of

_AT_ONCE = 500
"""Expressions in one query; DuckDB slows down as it gets wider."""

_WHOLE = 1e20
"""Larger than every whole number of 64 bits."""

_DEFAULT = object()
_COMPUTED = object()


def rows_of_values(context: Context, values: exp.Values, columns: Sequence[SchemaColumn]) -> list[dict[str, object]]:
    """Returns a dict for each row, without its DEFAULTs.

    Raises:
        InvalidArgument: a row has more or fewer values than there are columns; an expression cannot be computed.
    """
    cells = [list(row.expressions) if isinstance(row, exp.Tuple) else [row] for row in values.expressions]
    for row in cells:
        if len(row) != len(columns):
            names = ", ".join(column.name for column in columns)
            raise InvalidArgument(f"{len(row)} values are given for {len(columns)} columns, which are {names}")
    found = [[_literal(cell) for cell in row] for row in cells]
    places = [(y, x) for y, row in enumerate(found) for x, value in enumerate(row) if value is _COMPUTED]
    for start in range(0, len(places), _AT_ONCE):
        part = places[start : start + _AT_ONCE]
        for (y, x), value in zip(part, _computed(context, [cells[y][x] for y, x in part]), strict=True):
            found[y][x] = value
    return [
        {column.name: fitting(column, value) for column, value in zip(columns, row, strict=True) if value is not _DEFAULT}
        for row in found
    ]


def fitting(column: SchemaColumn, value: object) -> object:
    """Converts a whole number for a column of whole numbers, however it is written."""
    whole = column.type.name in ("SMALLINT", "INT", "BIGINT")
    if whole and isinstance(value, (float, Decimal)) and -_WHOLE < value < _WHOLE and value == value // 1:
        return int(value)
    return value


def is_default(value: exp.Expr) -> bool:
    """Whether the node is the keyword DEFAULT, which sqlglot parses as a variable or a column."""
    bare = isinstance(value, exp.Column) and not value.table and isinstance(value.this, exp.Identifier) and not value.this.quoted
    return (bare or isinstance(value, exp.Var)) and value.name.upper() == "DEFAULT"


def _literal(cell: exp.Expr) -> object:
    if is_default(cell):
        return _DEFAULT
    match cell:
        case exp.Null():
            return None
        case exp.Boolean():
            return bool(cell.this)
        case exp.Literal():
            return str(cell.this) if cell.is_string else _number(str(cell.this))
        case exp.Neg() if isinstance(cell.this, exp.Literal) and not cell.this.is_string:
            return _number(f"-{cell.this.this}")
        case _:
            return _COMPUTED


def _number(text: str) -> object:
    try:
        return number_of(text) if text.isascii() and "_" not in text else _COMPUTED
    except ValueError:
        return _COMPUTED


def _computed(context: Context, cells: Sequence[exp.Expr]) -> list[object]:
    named = [exp.alias_(cell.copy(), f"value {index}", quoted=True) for index, cell in enumerate(cells)]
    found = select.run(context, exp.select(*named, copy=False))
    return [column[0] for column in found.values()]
