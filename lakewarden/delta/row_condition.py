"""Conditions on a row that other engines wrote as text, evaluated where Spark's answer and ours agree for every value.

Comparisons of a column with a literal, IS NULL, IS NOT NULL, AND and OR, and BOOLEAN columns by themselves. Everything else is
not understood: engines differ in functions, casts, and what they do with overflow and time zones. One cast is a literal: delta-rs
writes `n > 0` of a DECIMAL as `n > '0'::decimal(18, 2)`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

Holds = Callable[[pa.Table], Any]
"""For each row true, false, or NULL."""

_COMPARE: Mapping[type[exp.Expr], Any] = {
    exp.EQ: pc.equal,
    exp.NEQ: pc.not_equal,
    exp.GT: pc.greater,
    exp.GTE: pc.greater_equal,
    exp.LT: pc.less,
    exp.LTE: pc.less_equal,
}
_FLIPPED: Mapping[type[exp.Expr], type[exp.Expr]] = {exp.GT: exp.LT, exp.LT: exp.GT, exp.GTE: exp.LTE, exp.LTE: exp.GTE}
_ABOVE_NAN = frozenset({exp.GT, exp.GTE, exp.NEQ})
"""Comparisons that hold for NaN, which Spark takes for greater than every number and equal to itself."""

_NUMBER = re.compile(r"\d+(\.\d+)?")
_SIGNED = re.compile(r"-?\d+(\.\d+)?", re.ASCII)
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)")
"""With its offset: without one, the session's zone would count."""

_DIGITS = 38
_AMBIGUOUS = ('"', "\\")
"""What quotes a name for one engine and a text for another; and what may escape a character or stand for itself."""


class _NotUnderstood(Exception):
    """The constraint has a part of which engines might not agree."""


def condition_of(text: str, columns: pa.Schema) -> Holds | None:
    """None where it is not understood.

    Args:
        columns: of the table, in the types of its rows.
    """
    if any(each in text for each in _AMBIGUOUS):
        return None
    try:
        return _Reader(columns).read(sqlglot.parse_one(text, dialect="spark"))
    except (SqlglotError, _NotUnderstood):
        return None


@dataclass(frozen=True)
class _Reader:
    columns: pa.Schema

    def read(self, node: exp.Expr) -> Holds:
        match node:
            case exp.Paren():
                return self.read(node.this)
            case exp.And():
                return _both(pc.and_kleene, self.read(node.this), self.read(node.expression))
            case exp.Or():
                return _both(pc.or_kleene, self.read(node.this), self.read(node.expression))
            case exp.Is(expression=exp.Null()):
                return _of(self._column(node.this), pc.is_null)
            case exp.Not() if isinstance(null := node.this.unnest(), exp.Is) and isinstance(null.expression, exp.Null):
                return _of(self._column(null.this), pc.is_valid)
            case exp.Column():
                return _of(self._boolean(node), lambda values: values)
            case exp.Not(this=exp.Column() as column):
                return _of(self._boolean(column), pc.invert)
        return self._comparison(node)

    def _boolean(self, node: exp.Column) -> pa.Field[Any]:
        """delta-rs writes `b = true` as `b`, and `b = false` as `NOT b`."""
        column = self._column(node)
        if not pa.types.is_boolean(column.type):
            raise _NotUnderstood
        return column

    def _comparison(self, node: exp.Expr) -> Holds:
        kind = type(node)
        if kind not in _COMPARE:
            raise _NotUnderstood
        left, right = node.this, node.expression
        if not isinstance(left, exp.Column):
            left, right, kind = right, left, _FLIPPED.get(kind, kind)
        column = self._column(left)
        return _compared(column, kind, right)

    def _column(self, node: object) -> pa.Field[Any]:
        """The one column that has the name in any case: engines differ in whether case counts."""
        if not isinstance(node, exp.Column) or node.table:
            raise _NotUnderstood
        found = [field for field in self.columns if field.name.lower() == node.name.lower()]
        if len(found) != 1:
            raise _NotUnderstood
        return found[0]


def _both(how: Any, one: Holds, other: Holds) -> Holds:
    return lambda rows: how(one(rows), other(rows))


def _of(column: pa.Field[Any], how: Callable[[Any], Any]) -> Holds:
    return lambda rows: how(rows.column(column.name))


def _compared(column: pa.Field[Any], kind: type[exp.Expr], literal: exp.Expr) -> Holds:
    type_, compare = column.type, _COMPARE[kind]
    if pa.types.is_floating(type_):
        value = _floating(literal, type_)
        above = kind in _ABOVE_NAN
        return lambda rows: _with_nan(compare, rows.column(column.name).cast(pa.float64()), value, above=above)
    if pa.types.is_integer(type_) or pa.types.is_decimal(type_):
        number = _decimal(literal)
        common = _common(type_, number)
        return lambda rows: compare(rows.column(column.name).cast(common), pa.scalar(number, common))
    known = _other(literal, type_, kind)
    return lambda rows: compare(rows.column(column.name), known)


def _with_nan(compare: Any, column: Any, value: float, *, above: bool) -> Any:
    found = compare(column, pa.scalar(value))
    return pc.or_kleene(found, pc.is_nan(column)) if above else found


def _number(literal: exp.Expr) -> Decimal:
    if isinstance(literal, exp.Neg):
        return _number(literal.this).copy_negate()
    if not isinstance(literal, exp.Literal) or literal.is_string or not _NUMBER.fullmatch(str(literal.this)):
        raise _NotUnderstood
    return Decimal(str(literal.this))


def _decimal(literal: exp.Expr) -> Decimal:
    """A number, or the text of one with a cast to a DECIMAL that holds just this number."""
    if not isinstance(literal, exp.Cast):
        return _number(literal)
    text, sizes = literal.this, [size.name for size in literal.to.expressions]
    known = isinstance(text, exp.Literal) and text.is_string and _SIGNED.fullmatch(str(text.this))
    if not known or literal.to.this != exp.DType.DECIMAL or len(sizes) != 2 or not all(map(str.isdecimal, sizes)):
        raise _NotUnderstood
    number, (precision, scale) = Decimal(str(text.this)), map(int, sizes)
    _, digits, exponent = number.as_tuple()
    if -int(exponent) > scale or len(digits) + int(exponent) > precision - scale:
        raise _NotUnderstood
    return number


def _common(type_: pa.DataType, number: Decimal) -> pa.DataType:
    """A DECIMAL that holds both; Spark rounds where there is none, and takes shortcuts for numbers beyond 64 bits."""
    if pa.types.is_integer(type_) and not -(2**63) <= number < 2**63:
        raise _NotUnderstood
    _, digits, exponent = number.as_tuple()
    scale = -int(exponent)
    before, behind = (type_.precision - type_.scale, type_.scale) if isinstance(type_, pa.Decimal128Type) else (19, 0)
    scale = max(behind, scale)
    if max(before, len(digits) + int(exponent)) + scale > _DIGITS:
        raise _NotUnderstood
    return pa.decimal128(_DIGITS, scale)


def _floating(literal: exp.Expr, type_: pa.DataType) -> float:
    """Spark compares a FLOAT with a whole number as FLOAT, and with another as DOUBLE."""
    number = _number(literal)
    value = float(number)
    if not np.isfinite(value) or (number == number.to_integral_value() and Decimal(value) != number):
        raise _NotUnderstood
    if pa.types.is_float32(type_) and float(np.float32(value)) != value and number == number.to_integral_value():
        raise _NotUnderstood
    return value


def _other(literal: exp.Expr, type_: pa.DataType, kind: type[exp.Expr]) -> Any:
    if pa.types.is_boolean(type_) and isinstance(literal, exp.Boolean) and kind in (exp.EQ, exp.NEQ):
        return pa.scalar(bool(literal.this))
    if isinstance(literal, exp.Cast) and literal.to.this == exp.DType.DATE and pa.types.is_date(type_):
        literal = literal.this
    if not isinstance(literal, exp.Literal) or not literal.is_string:
        raise _NotUnderstood
    text = str(literal.this)
    if pa.types.is_string(type_):
        return pa.scalar(text)
    return pa.scalar(_moment(text, type_), type_)


def _moment(text: str, type_: pa.DataType) -> date:
    try:
        if pa.types.is_date(type_) and _DATE.fullmatch(text):
            return date.fromisoformat(text)
        if pa.types.is_timestamp(type_) and _MOMENT.fullmatch(text):
            return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        raise _NotUnderstood from None
    raise _NotUnderstood
