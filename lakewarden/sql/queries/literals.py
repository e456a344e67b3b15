"""Reads literals of a query as values of a column's type, where DuckDB compares them as Lakewarden does."""

from __future__ import annotations

import math
import re
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal

from sqlglot import exp

from lakewarden.catalog.column_types import ColumnType
from lakewarden.delta.reading.bounds import Value
from lakewarden.errors import ConstraintViolation

_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d:\d\d(?:\.\d{1,6})?(?:Z|[+-]\d\d(?::\d\d)?)?)?")
_LOCAL = re.compile(r"[\d\-:. T]+")
_WHOLE = frozenset({"SMALLINT", "INT", "BIGINT"})
_TEXT = frozenset({"TEXT", "UUID"})
_SAFE = 300
"""The most digits that a number in DOUBLE's range has on either side of the point."""

_LONGEST = 18
"""Digits of a number: more may be beyond 64 bits."""


def value_of(node: exp.Expr, kind: ColumnType) -> Value | None:
    """The value; None if it is not a literal, or DuckDB might read it differently."""
    match node:
        case exp.Literal() if node.is_string:
            return _text(str(node.this), kind)
        case exp.Literal():
            return _number(str(node.this), kind)
        case exp.Neg(this=exp.Literal(is_string=False) as number):
            return _number(f"-{number.this}", kind)
        case exp.Cast(this=exp.Literal(is_string=True) as text) if _said(node.to, str(text.this)) == kind.name:
            return _text(str(text.this), kind)
        case _:
            return None


def number_of(text: str) -> int | Decimal:
    """The value of a number as it is written, exactly.

    Raises:
        ConstraintViolation: it is out of DOUBLE's range, where DuckDB would read infinity or zero.
        ValueError: it is not a decimal number.
    """
    wide = float(text)
    if math.isinf(wide) or (wide == 0 and any(digit in "123456789" for digit in text.lower().partition("e")[0])):
        raise ConstraintViolation(f"{text[:40]} is out of DOUBLE's range, which is 64 bits")
    return int(text) if text.lstrip("-").isdigit() else Decimal(text)


def check_numbers(query: exp.Expr) -> None:
    """Raises:
    ConstraintViolation: a number of the query is out of DOUBLE's range.
    """
    for literal in query.find_all(exp.Literal):
        if not literal.is_string and (len(text := str(literal.this)) > _SAFE or "e" in text.lower()):
            with suppress(ValueError):  # hexadecimal digits and the like
                number_of(text)


def _said(to: exp.DataType, text: str) -> str:
    """The column type that `DATE '…'` or `TIMESTAMP '…'` means. A TIMESTAMP without a zone is in UTC."""
    if to.this == exp.DType.TIMESTAMPNTZ:
        return "TIMESTAMP" if _LOCAL.fullmatch(text) else ""
    return {exp.DType.DATE: "DATE", exp.DType.TIMESTAMPTZ: "TIMESTAMP"}.get(to.this, "")


def _number(text: str, kind: ColumnType) -> int | Decimal | None:
    if len(text) > _LONGEST or not text.lstrip("-").replace(".", "", 1).isdigit():
        return None
    if kind.name == "DECIMAL":
        return Decimal(text)
    return int(text) if kind.name in _WHOLE and "." not in text else None


def _text(text: str, kind: ColumnType) -> Value | None:
    if kind.name in _TEXT:
        return text
    form = {"DATE": _DATE, "TIMESTAMP": _MOMENT}.get(kind.name)
    if form is None or not form.fullmatch(text):
        return None
    try:
        if kind.name == "DATE":
            return date.fromisoformat(text)
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
