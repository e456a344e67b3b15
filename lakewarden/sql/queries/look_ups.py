"""Look-ups: `SELECT columns FROM table WHERE column = literal AND …`, and nothing else. They are recognized by the tokens of a
text, and answered from the log and Delta, without the engine: no expression of the session is computed.

The shape of a text is its tokens without the values of its literals. A text whose shape was seen before is not parsed again.
What is kept holds names alone: no value of a user, no right, and nothing of what the names mean, which each run looks up.

DuckDB's comparison is the measure. What it might read otherwise than this process (text against a number, `5.0`, a UUID in
capitals, a zone, a number out of range) is a query like any other, and goes to a worker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from lakewarden.base.recent import Recent
from lakewarden.catalog.column_types import ColumnType
from lakewarden.catalog.column_values import convert
from lakewarden.catalog.model import SchemaColumn, Table
from lakewarden.delta.reading.bounds import Bound, Value
from lakewarden.sql.context import Context
from lakewarden.sql.plain_values import name_of
from lakewarden.sql.queries.answer import AnswerPlan, answer_of
from lakewarden.sql.queries.literals import day_of
from lakewarden.sql.ref import Ref
from lakewarden.sql.relations import SEQ, Relation
from lakewarden.sql.results import ResultRows, names_apart


@dataclass(frozen=True)
class Constant:
    """A literal of a look-up. Its value is not part of it: `place` counts among the literals of the text."""

    place: int
    is_string: bool
    negative: bool = False


@dataclass(frozen=True)
class ShownItem:
    """What a look-up shows: a column by its name as written, a literal, or all columns; and the name that the text gives it."""

    what: str | Constant | None
    alias: str | None = None


@dataclass(frozen=True)
class LookUpShape:
    """`SELECT columns FROM table WHERE column = literal AND …` without its values: names alone, so that it may be kept."""

    table: Ref
    alias: str
    """By which columns may be qualified."""
    shown: tuple[ShownItem, ...]
    key: tuple[tuple[str, Constant], ...]
    """The columns that are compared, as written: whether they are the key is for the table at hand."""


@dataclass(frozen=True)
class LookUp:
    """A query of one row by its key, with the literals of its text in order."""

    shape: LookUpShape
    literals: tuple[str, ...]

    def text(self, constant: Constant) -> str:
        return f"-{self.literals[constant.place]}" if constant.negative else self.literals[constant.place]


_LITERALS = frozenset({TokenType.NUMBER, TokenType.STRING})
_MOST_TOKENS = 200
"""Of a look-up that is recognized: some fifty columns."""

_MOST_CHARACTERS = 1 << 18
"""Of the names in all shapes that are kept: of a thousand to ten thousand texts, in some 20 MB with their tokens."""

_ShapeKey = tuple[tuple[TokenType, str], ...]

_kept: Recent[_ShapeKey, LookUpShape] = Recent(_MOST_CHARACTERS, share=64)


def seen_look_up(tokens: Sequence[Token]) -> LookUp | None:
    """What a text looks up, if a text of this shape was seen before; then nothing parses it."""
    if len(tokens) > _MOST_TOKENS or tokens[0].token_type is not TokenType.SELECT:
        return None
    shape = _kept.get(_shape_key(tokens))
    return None if shape is None else LookUp(shape, _literals(tokens))


def recognized(tokens: Sequence[Token], query: exp.Query) -> LookUp | None:
    """What a query looks up, if it is a look-up; its shape is then kept."""
    if len(tokens) > _MOST_TOKENS or tokens[0].token_type is not TokenType.SELECT:
        return None
    found = _Reader()
    shape, literals = found.shape(query), _literals(tokens)
    if shape is None or tuple(found.literals) != literals:  # each literal of the text is one of the look-up, in this order
        return None
    key = _shape_key(tokens)
    _kept.put(key, shape, sum(len(text) for _, text in key))
    return LookUp(shape, literals)


def _literals(tokens: Sequence[Token]) -> tuple[str, ...]:
    return tuple([token.text for token in tokens if token.token_type in _LITERALS])


def _shape_key(tokens: Sequence[Token]) -> _ShapeKey:
    return tuple([(token.token_type, "" if token.token_type in _LITERALS else token.text) for token in tokens])


class _NoLookUp(Exception):
    """The query has a part that a look-up has not."""


class _Reader:
    """Takes the tree of a query apart, its literals in the order of the text."""

    def __init__(self) -> None:
        self.literals: list[str] = []

    def shape(self, query: exp.Query) -> LookUpShape | None:
        """None for a query that has any other part."""
        try:
            return self._shape(query)
        except _NoLookUp:
            return None

    def _shape(self, query: exp.Query) -> LookUpShape:
        _only(query, exp.Select, "expressions", "from_", "where")
        source = _only(query.args.get("from_"), exp.From, "this").this
        _only(source, exp.Table, "this", "db", "alias")
        _only(source.this, exp.Identifier, "this", "quoted")
        if source.args.get("alias"):
            _only(source.args["alias"], exp.TableAlias, "this")
        ref, alias = Ref(source.name, source.db or None), source.alias_or_name
        shown = tuple(self._item(each, alias) for each in query.expressions)
        where = _only(query.args.get("where"), exp.Where, "this").this
        return LookUpShape(ref, alias, shown, tuple(self._compared(part, alias) for part in _parts(where)))

    def _item(self, node: exp.Expr, alias: str) -> ShownItem:
        if isinstance(node, exp.Alias):
            _only(node, exp.Alias, "this", "alias")
            what = self._what(node.this, alias)
            return ShownItem(what, node.alias)
        return ShownItem(None) if type(node) is exp.Star and not any(node.args.values()) else ShownItem(self._what(node, alias))

    def _what(self, node: exp.Expr, alias: str) -> str | Constant:
        return self._constant(node) if isinstance(node, exp.Literal) else _named_column(node, alias)

    def _compared(self, node: exp.Expr, alias: str) -> tuple[str, Constant]:
        _only(node, exp.EQ, "this", "expression")
        one, other = node.this, node.expression
        column, value = (one, other) if isinstance(one, exp.Column) else (other, one)
        return _named_column(column, alias), self._constant(value)

    def _constant(self, node: exp.Expr, *, negative: bool = False) -> Constant:
        """A literal, or a negative number, which is in brackets where it comes from a parameter."""
        if type(node) is exp.Paren and type(node.this) is exp.Neg:
            return self._constant(node.this)
        if type(node) is exp.Neg and not negative and not node.this.is_string:
            return self._constant(node.this, negative=True)
        _only(node, exp.Literal, "this", "is_string")
        self.literals.append(str(node.this))
        return Constant(len(self.literals) - 1, bool(node.is_string), negative)


def _named_column(node: exp.Expr, alias: str) -> str:
    column = _only(node, exp.Column, "this", "table")
    _only(column.this, exp.Identifier, "this", "quoted")
    table = column.text("table").lower()
    if name_of(column) or table not in ("", alias.lower()):
        raise _NoLookUp
    return column.name


def _parts(condition: exp.Expr) -> Iterator[exp.Expr]:
    """In the order of the text."""
    if type(condition) is exp.And:
        yield from _parts(condition.this)
        yield from _parts(condition.expression)
    else:
        yield condition


def _only(node: object, kind: type[exp.Expr], *parts: str) -> exp.Expr:
    """The node, if it is of this kind and has no other parts."""
    if type(node) is not kind or any(part and name not in parts for name, part in node.args.items()):
        raise _NoLookUp
    return node


_WHOLE = {"SMALLINT": 15, "INT": 31, "BIGINT": 63}
"""Types of whole numbers, and their bits without the sign."""

_DIGITS = 18
"""Of a literal: as many are within 64 bits."""

_TYPES = {
    "INT": "INTEGER",
    "TEXT": "VARCHAR",
    "UUID": "VARCHAR",
    "BYTES": "BLOB",
    "TIMESTAMP": "TIMESTAMP WITH TIME ZONE",
    "TIME": "BIGINT",
    "FILE": "JSON",
}
"""DuckDB's names of the types that columns are kept in, where they are not our own."""


@dataclass(frozen=True)
class _AnswerColumn:
    """A column of the answer: one of the table by its name, or the same value in each row."""

    name: str
    type: str
    """DuckDB's name."""
    source: str | None
    kind: pa.DataType
    value: object = None


@dataclass(frozen=True)
class BoundLookUp:
    """A look-up whose table and columns are known, and whose literals are exactly values of its key."""

    context: Context
    table: Table
    columns: tuple[_AnswerColumn, ...]
    key: tuple[tuple[str, Value], ...]
    answer: AnswerPlan | None

    def rows(self) -> ResultRows | None:
        """Returns None where they are too large for an answer, which the engine reports."""
        from lakewarden.sql.queries.scan import scanned_within  # imports Delta, which a query without tables does not need

        names = dict.fromkeys(column.source for column in self.columns if column.source is not None)
        wanted = tuple(dict.fromkeys((*names, *(name for name, _ in self.key))))
        bounds = tuple(Bound(name, value, value) for name, value in self.key)
        rows = scanned_within(self.context, self.table, wanted, bounds)
        for name, value in self.key if rows.num_rows else ():  # rows of the log are not within the bounds
            rows = rows.filter(pc.equal(rows.column(name), pa.scalar(value, rows.schema.field(name).type)))
        self.context.cancellation.check()
        return None if rows.nbytes > self.context.limits.result_bytes else self._answered(rows)

    def described(self) -> ResultRows:
        """The columns, without rows."""
        return self._answered(pa.schema([(each.source, each.kind) for each in self.columns if each.source]).empty_table())

    def _answered(self, rows: pa.Table) -> ResultRows:
        columns = [
            pa.array([each.value] * rows.num_rows, each.kind) if each.source is None else rows.column(each.source).cast(each.kind)
            for each in self.columns
        ]
        made = pa.Table.from_arrays(columns, names=names_apart([each.name for each in self.columns]))
        owned = self.context.owner(self.table) is not None
        found = ResultRows(made, tuple(each.type for each in self.columns), (str(self.table.name),) if owned else ())
        return found if self.answer is None else self.answer.shown(found)


def bound_look_up(context: Context, look_up: LookUp | None) -> BoundLookUp | None:
    """The look-up in this context; None where the engine has to answer it. Rights were checked by `bind`, for this run."""
    if look_up is None:
        return None
    shape, name = look_up.shape, context.named(look_up.shape.table)
    table = context.readable.get(name)
    if name in context.shadowing or name in context.catalog.views or not isinstance(table, Table) or table.schema.append_only:
        return None
    columns, key = _columns(table, look_up), _key(table, look_up)
    answer = answer_of(context, (Relation(name),))
    fanned_out = answer is not None and context.freshness == "eventual"
    if columns is None or key is None or fanned_out or _column(table, shape.alias) is not None:
        return None
    return BoundLookUp(context, table, columns, key, answer)


def _columns(table: Table, look_up: LookUp) -> tuple[_AnswerColumn, ...] | None:
    found: list[_AnswerColumn] = []
    for item in look_up.shape.shown:
        made = list(_shown(table, look_up, item))
        if not made:
            return None
        found.extend(made)
    return tuple(found)


def _shown(table: Table, look_up: LookUp, item: ShownItem) -> Iterator[_AnswerColumn]:
    """The columns that an item means; none where the engine decides."""
    if item.what is None:
        yield from (_of_table(column) for column in table.schema.shown)
        return
    known = None if item.alias is None else _column(table, item.alias)
    if isinstance(item.what, Constant):
        made = _constant(item.what, look_up.text(item.what))
        if made is not None and known is None:
            yield made if item.alias is None else replace(made, name=item.alias)
    elif item.what.lower() == SEQ and known is None:
        yield _AnswerColumn(item.alias or SEQ, "BIGINT", SEQ, pa.int64())
    elif (column := _column(table, item.what)) is not None and known in (None, column):
        made = _of_table(column)  # an alias that is another column's name could be meant elsewhere
        yield made if item.alias is None else replace(made, name=item.alias)


def _column(table: Table, name: str) -> SchemaColumn | None:
    return next((column for column in table.schema.shown if column.name.lower() == name.lower()), None)


def _of_table(column: SchemaColumn) -> _AnswerColumn:
    kind = column.type
    return _AnswerColumn(column.name, _TYPES.get(kind.name, str(kind)), column.name, kind.arrow)


def _constant(constant: Constant, text: str) -> _AnswerColumn | None:
    """A text, or a whole number as DuckDB would write it: these have its names and types."""
    if constant.is_string:
        quoted = text.replace("'", "''")
        return _AnswerColumn(f"'{quoted}'", "VARCHAR", None, pa.string(), text) if _is_text(text) else None
    if not text.isdecimal() or not text.isascii() or text != str(int(text[:_DIGITS])):
        return None
    small = int(text) < 1 << 31
    return _AnswerColumn(text, "INTEGER" if small else "BIGINT", None, pa.int32() if small else pa.int64(), int(text))


def _key(table: Table, look_up: LookUp) -> tuple[tuple[str, Value], ...] | None:
    """The value of each column of the key; None unless each is compared once, with what is exactly a value of it."""
    columns = [(_column(table, name), constant) for name, constant in look_up.shape.key]
    if sorted(column.name for column, _ in columns if column is not None) != sorted(table.schema.primary_key):
        return None
    found = []
    for column, constant in columns:
        value = None if column is None else exact_value(column.type, look_up.text(constant), is_string=constant.is_string)
        if column is None or value is None:
            return None
        found.append((column.name, value))
    return tuple(found)


def exact_value(kind: ColumnType, text: str, *, is_string: bool) -> Value | None:
    """The value of a literal, as an INSERT would keep it, where DuckDB compares it with a column of this type by just this value;
    else None.
    """
    if kind.name in _WHOLE:
        digits = text.removeprefix("-")
        if is_string or not digits.isascii() or not digits.isdecimal() or len(digits) > _DIGITS:
            return None
        value, end = int(text), 1 << _WHOLE[kind.name]
        return value if -end <= value < end else None
    if not is_string or not _is_text(text):
        return None
    match kind.name:
        case "TEXT":
            return text
        case "UUID":
            return text if _as_kept(kind, text) else None
        case "DATE":
            return day_of(text)
        case _:
            return None


def _as_kept(kind: ColumnType, text: str) -> bool:
    try:
        return convert(kind, text) == text
    except ValueError:
        return False


def _is_text(text: str) -> bool:
    """Whether a column can hold it: DuckDB's texts end at a NUL, and half of a surrogate pair is no character."""
    return "\0" not in text and text.encode(errors="replace").decode() == text
