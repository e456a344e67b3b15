"""Reads literals of a query as values of a column's type, where DuckDB compares them as Lakewarden does."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal

from sqlglot import exp

from lakewarden.catalog.column_types import ColumnType
from lakewarden.catalog.column_values import convert
from lakewarden.catalog.model import TableSchema
from lakewarden.delta.reading.bounds import Value
from lakewarden.errors import ConstraintViolation

_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d:\d\d(?:\.\d{1,6})?(?:Z|[+-]\d\d(?::\d\d)?)?)?")
_LOCAL = re.compile(r"[\d\-:. T]+")
_WHOLE = frozenset({"SMALLINT", "INT", "BIGINT"})
_TEXT = frozenset({"TEXT", "UUID"})
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
    if kind.name == "DATE":
        return day_of(text)
    with suppress(ValueError, OverflowError):
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    return None


def day_of(text: str) -> date | None:
    """A day of the calendar as ISO 8601 writes it in full; None for any other text."""
    with suppress(ValueError):
        return date.fromisoformat(text) if _DATE.fullmatch(text) else None
    return None


# Converts literals that are compared with columns to the form that the column stores: UUIDs in lower case, a TIME as
# microseconds. DuckDB then compares values of the same form.
Schemas = Mapping[int, TableSchema]
"""The schemas of a query's tables, by the `id` of the node that names each."""

_KEPT_OTHERWISE = frozenset({"UUID", "TIME"})
COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ)
_WRITTEN = frozenset({exp.DType.UUID, exp.DType.TIME, exp.DType.TEXT, exp.DType.VARCHAR})
_DEEPEST = 32


def take_kept_forms(query: exp.Query, columns: ColumnTypes) -> None:
    """Converts such literals of a query to their columns' form."""
    wanted = {
        column.type for schema in columns.schemas.values() for column in schema.columns if column.type.name in _KEPT_OTHERWISE
    }
    if wanted:
        for node in list(query.find_all(*COMPARISONS, exp.Between, exp.In, exp.Case)):
            for column, values in _compared(node):
                kind = columns.type_of(column)
                if kind is not None and kind in wanted:
                    _rewrite(values, kind)


def _compared(node: exp.Expr) -> Iterator[tuple[exp.Column, Sequence[exp.Expr]]]:
    """A column, and what it is compared with; of rows in brackets, each column with the values in its place."""
    match node:
        case exp.Between():
            yield from _pairs(node.this, (node.args["low"], node.args["high"]))
        case exp.In():
            yield from _pairs(node.this, node.expressions)
        case exp.Case(this=exp.Expr() as one):
            yield from _pairs(one, [each.this for each in node.args["ifs"]])
        case exp.Binary(this=one, expression=other):
            yield from _pairs(one, _items(other))
            yield from _pairs(other, _items(one))


def _pairs(one: exp.Expr, others: Sequence[exp.Expr]) -> Iterator[tuple[exp.Column, Sequence[exp.Expr]]]:
    inner = one.unnest()
    if isinstance(inner, exp.Column):
        yield inner, others
    rows = [_parts(each.unnest()) for each in others]
    for place, part in enumerate(parts := _parts(inner)):
        yield from _pairs(part, [row[place] for row in rows if len(row) == len(parts)])


def _parts(row: exp.Expr) -> Sequence[exp.Expr]:
    """Of `(a, b)` and `ROW(a, b)`."""
    is_row = isinstance(row, exp.Tuple) or (isinstance(row, exp.Anonymous) and row.name.upper() == "ROW")
    return row.expressions if is_row else ()


def _items(value: exp.Expr) -> Sequence[exp.Expr]:
    """The items of `ANY([…])` and `ALL([…])`; any other value is one."""
    is_all = isinstance(value, exp.Anonymous) and value.name.upper() == "ALL" and value.expressions  # as sqlglot reads it
    if not is_all and not isinstance(value, exp.Any):
        return (value,)
    items = (value.expressions[0] if is_all else value.this).unnest()
    items = items.this.unnest() if isinstance(items, exp.Cast) else items
    return items.expressions if isinstance(items, exp.Array) else (value,)


def _rewrite(values: Sequence[exp.Expr], kind: ColumnType) -> None:
    for value in values:
        if isinstance(value.parent, exp.Array) and isinstance(value.parent.parent, exp.Cast):
            value.parent.parent.replace(value.parent)  # `::UUID[]`, as a driver's parameter has it
        inner = value.unnest()
        literal = inner.this if isinstance(inner, exp.Cast) and inner.to.this in _WRITTEN else inner
        if isinstance(literal, exp.Literal) and literal.is_string:
            try:
                kept = convert(kind, str(literal.this))
            except ValueError:
                continue  # DuckDB reports the error
            value.replace(exp.convert(kept))


@dataclass(frozen=True)
class ColumnTypes:
    """From which column of a table a query's column comes, and so which type it has."""

    schemas: Schemas
    known: dict[tuple[int, str, str], frozenset[ColumnType]] = field(default_factory=dict)
    """By SELECT, column and source: CTEs that name the one before twice are 2 to the power of their number ways to a column."""

    def type_of(self, column: exp.Column) -> ColumnType | None:
        """The type of the table's column that a query's column comes from; None if it is ambiguous."""
        return self._found(column, column.name, column.table.lower(), _DEEPEST)

    def _found(self, at: exp.Expr, name: str, source: str, depth: int) -> ColumnType | None:
        """Searches the SELECT around the node, then the enclosing ones, as SQL's scoping does."""
        select = at.find_ancestor(exp.Select)
        while select is not None and depth:
            found = self._of_select(select, name.lower(), source, depth)
            if found:
                return next(iter(found)) if len(found) == 1 else None
            select = select.find_ancestor(exp.Select)
        return None

    def _of_select(self, select: exp.Select, name: str, source: str, depth: int) -> frozenset[ColumnType]:
        place = (id(select), name, source)
        if place not in self.known:
            named = (each for each in _sources(select) if source in ("", each.alias_or_name.lower()))
            kinds = {self._of_source(each, name, depth) for each in named}
            self.known[place] = frozenset(kind for kind in kinds if kind is not None)
        return self.known[place]

    def _of_source(self, source: exp.Expr, name: str, depth: int) -> ColumnType | None:
        alias = source.args.get("alias")
        if isinstance(alias, exp.TableAlias) and alias.columns:
            return None
        schema = self.schemas.get(id(source))
        if schema is not None:
            return next((each.type for each in schema.columns if each.name.lower() == name.lower()), None)
        inner = source.this if isinstance(source, exp.Subquery) else _cte(source)
        return None if inner is None else self._of_query(inner, name, depth - 1)

    def _of_query(self, query: exp.Expr, name: str, depth: int) -> ColumnType | None:
        query = query.unnest()
        if isinstance(query, exp.SetOperation):
            left, right = self._of_query(query.this, name, depth), self._of_query(query.expression, name, depth)
            return left if left == right else None
        if not isinstance(query, exp.Select) or not depth:
            return None
        for each in query.expressions:
            inner = each.unalias()
            if each.alias_or_name.lower() == name.lower() and isinstance(inner, exp.Column):
                return self._found(inner, inner.name, inner.table.lower(), depth)
        stars = [each for each in query.expressions if each.is_star and not each.args.get("replace")]
        return self._found(stars[0], name, stars[0].text("table").lower(), depth) if len(stars) == 1 else None


def _sources(select: exp.Select) -> Iterator[exp.Expr]:
    for part in (select.args.get("from_"), *(select.args.get("joins") or ())):
        if part is not None:
            yield part.this


def _cte(table: exp.Expr) -> exp.Expr | None:
    """The query of the CTE that a name in FROM refers to."""
    node = table.parent
    while isinstance(table, exp.Table) and node is not None:
        with_ = node.args.get("with_")
        if isinstance(with_, exp.With):
            for each in with_.expressions:
                if each.alias.lower() == table.name.lower():
                    return None if each.args["alias"].columns or with_.recursive else each.this
        node = node.parent
    return None


# A cast to DECIMAL or NUMERIC without digits keeps the value: DuckDB's own (18, 3) would round it.
#
# SQL's standard leaves the digits to the system, and PostgreSQL has no bound on them. A literal gets as many as it has, a
# column of DECIMAL keeps its own, and all else gets 18 behind the point: as many as a number in DOUBLE can show, and still 20
# before it.

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


# DuckDB reads a number with an exponent, or with a point and more than 38 digits (the zero before it is one), in DOUBLE. Where
# that is another number, it is written as a DECIMAL instead: an UPDATE would store, and a DELETE find, the value beside it. It
# stays where it is a DOUBLE anyway: it is cast to one, or compared with a column of them. A whole number of 2^128 or more is a
# BIGNUM, which DuckDB lists and prints, cannot compare with a DECIMAL, and multiplies in DOUBLE.
def keep_numbers(query: exp.Query, columns: ColumnTypes) -> None:
    """Writes such numbers of a query as DECIMAL.

    Raises:
        ConstraintViolation: no DECIMAL has as many digits.
    """
    changed = [each for each in query.find_all(exp.Literal) if not each.is_string and _is_changed(str(each.this))]
    if not changed:
        return
    met: dict[int, ColumnType] = {}
    for node in query.find_all(*COMPARISONS, exp.Between, exp.In, exp.Case):
        for column, values in _compared(node):
            if (kind := columns.type_of(column)) is not None:
                met |= {id(value): kind for value in values}
    for literal in changed:
        _write_exactly(literal, met)


def _write_exactly(literal: exp.Literal, met: Mapping[int, ColumnType]) -> None:
    signed: exp.Expr = literal
    negative = False
    while isinstance(signed.parent, (exp.Neg, exp.Paren)):
        signed = signed.parent
        negative ^= isinstance(signed, exp.Neg)
    kind, cast = met.get(id(signed)), signed.parent.to.this if isinstance(signed.parent, exp.Cast) else None
    if cast in _FLOATING or (kind is not None and kind.name in ("FLOAT", "DOUBLE")) or (literal.is_int and _is_shown(signed)):
        return
    number = Decimal(str(literal.this))
    if cast is exp.DType.DECIMAL:  # which rounds to the digits that are written there
        signed.replace(exp.Literal.string(f"{'-' if negative else ''}{number:f}"))
    elif (scale := _scale_beside(number, kind)) is not None:
        literal.replace(exp.cast(exp.Literal.string(format(number, "f")), f"DECIMAL({_MOST}, {scale})"))
    elif kind is not None and not -_MOST <= number.adjusted() < _MOST:  # one out of a DECIMAL's range is as far in DOUBLE
        literal.replace(exp.cast(exp.Literal.string(str(literal.this)), "DOUBLE"))
    else:
        raise ConstraintViolation(
            f"{literal.name[:60]} has more digits than a DECIMAL{f' beside {kind}' if kind else ''} has, and DOUBLE would change"
            " it; write fewer, or cast it to DOUBLE"
        )


_FLOATING = (exp.DType.FLOAT, exp.DType.DOUBLE)


def _is_shown(value: exp.Expr) -> bool:
    """Whether it is, as it is, a value of a SELECT, of VALUES or of a list, or becomes text."""
    parent = value.parent.parent if isinstance(value.parent, (exp.Alias, exp.Tuple)) else value.parent
    return isinstance(parent, (exp.Select, exp.Values, exp.Array)) or (isinstance(parent, exp.Cast) and parent.is_type("TEXT"))


def changed_number(value: exp.Expr) -> str | None:
    """The text of a number that a query changes, or of a minus zero; None for all else, and for what `check_numbers` refuses."""
    negative = isinstance(value, exp.Neg)
    literal = value.this if negative else value
    text = literal.name if isinstance(literal, exp.Literal) and literal.is_number else ""
    if not _NUMBER.fullmatch(text):
        return None
    number, nearest = Decimal(text), float(text)
    changed = negative if number.is_zero() else _is_changed(text) and nearest and math.isfinite(nearest)
    return f"{'-' if negative else ''}{text}" if changed else None


def _is_changed(text: str) -> bool:
    """Whether DuckDB reads it in DOUBLE, and DOUBLE has neither this value nor writes it so; or as a BIGNUM."""
    if not _NUMBER.fullmatch(text):
        return False
    if text.isdigit():
        return int(text) >= _BIGNUM
    whole, _, behind = text.lower().partition("e")[0].partition(".")
    if "e" not in text.lower() and max(len(whole), 1) + len(behind) <= _MOST:
        return False
    number, nearest = Decimal(text), float(text)
    return number not in (Decimal(nearest), Decimal(repr(nearest)))


_BIGNUM = 1 << 128  # the first whole number that is one


def _scale_beside(number: Decimal, kind: ColumnType | None) -> int | None:
    """The digits behind the point of a DECIMAL that holds the number, and each value of the type; None where there is none."""
    _, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int), "it is finite"
    length = len("".join(map(str, digits)).rstrip("0"))  # `Decimal.normalize` would round to the digits of a context
    exponent += len(digits) - length
    before, scale = max(length + exponent, 0), max(-exponent, 0)
    if kind is not None and kind.precision is not None:
        before, scale = max(before, kind.precision - (kind.scale or 0)), max(scale, kind.scale or 0)
    return scale if before + scale <= _MOST else None
