"""A cast to DECIMAL or NUMERIC without digits keeps the value: DuckDB's own (18, 3) would round it.

SQL's standard leaves the digits to the system, and PostgreSQL has no bound on them. A literal gets as many as it has, a column of
DECIMAL keeps its own, and all else gets 18 behind the point: as many as a number in DOUBLE can show, and still 20 before it.
"""

from __future__ import annotations

import re
from decimal import Decimal

from sqlglot import exp

from lakewarden.sql.queries.literal_forms import ColumnTypes

_MOST = 38
_BEHIND = 18
_NUMBER = re.compile(r"\s*[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?\s*", re.ASCII)


def keep_digits(query: exp.Query, columns: ColumnTypes) -> None:
    """Gives digits to each DECIMAL of a query that has none."""
    for kind in list(query.find_all(exp.DataType)):
        if kind.this is exp.DType.DECIMAL and not kind.expressions:
            digits = _MOST, _BEHIND
            if isinstance(kind.parent, exp.Cast):
                digits = _digits_of_column(kind.parent.this, columns) or _digits_of_literal(kind.parent) or digits
            kind.set("expressions", [exp.DataTypeParam(this=exp.Literal.number(number)) for number in digits])


def _digits_of_column(value: exp.Expr, columns: ColumnTypes) -> tuple[int, int] | None:
    column = columns.type_of(value) if isinstance(value, exp.Column) else None
    return None if column is None or column.precision is None else (column.precision, column.scale or 0)


def _digits_of_literal(cast: exp.Cast) -> tuple[int, int] | None:
    """The digits of a number as it is written. It is then cast from its plain text: DuckDB reads one with an exponent in DOUBLE.

    None where no DECIMAL has as many, which DuckDB refuses.
    """
    value = cast.this.unnest()
    negative = isinstance(value, exp.Neg)
    literal = value.this if negative else value
    if not isinstance(literal, exp.Literal) or not _NUMBER.fullmatch(literal.name):
        return None
    number = Decimal(("-" if negative and literal.is_number else "") + literal.name.strip())
    _, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int), "it matched"
    scale = max(-exponent, 0)
    if scale > _MOST or len(digits) + max(exponent, 0) > _MOST or (negative and literal.is_string):
        return None
    cast.set("this", exp.Literal.string(format(number, "f")))
    return _MOST, scale
