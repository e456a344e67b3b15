"""Recognizes look-ups, `SELECT columns FROM table WHERE column = literal AND …`, and `INSERT … VALUES` of literals; nothing else.

The shape of a text is its tokens without the values of its literals. A text whose shape was seen before is not parsed again.
What is kept holds names alone: no value of a user, no right, and nothing of what the names mean, which each run looks up.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from lakewarden.base.recent import Recent
from lakewarden.sql.plain_values import name_of
from lakewarden.sql.ref import Ref


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


@dataclass(frozen=True, eq=False)
class LookUpShape:
    """`SELECT columns FROM table WHERE column = literal AND …` without its values: names alone, so that it may be kept. One
    that was kept is the same object at each run, so what it means is found by that (`look_ups`).
    """

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


@dataclass(frozen=True)
class InsertShape:
    """`INSERT INTO table (columns) VALUES …` without its values: each is a literal, or a node that names nothing."""

    table: Ref
    columns: tuple[str, ...]
    alias: str | None
    rows: tuple[tuple[Constant | exp.Expr, ...], ...]

    def query(self, literals: Sequence[str]) -> exp.Query:
        """`SELECT * FROM VALUES …` with these literals, as the grammar makes it of the text."""
        rows = [exp.Tuple(expressions=[_cell(each, literals) for each in row]) for row in self.rows]
        return exp.Select(expressions=[exp.Star()], from_=exp.From(this=exp.Values(expressions=rows)))


def _cell(cell: Constant | exp.Expr, literals: Sequence[str]) -> exp.Expr:
    if not isinstance(cell, Constant):
        return cell.copy()
    literal = exp.Literal(this=literals[cell.place], is_string=cell.is_string)
    return exp.Neg(this=literal) if cell.negative else literal


TextShape = LookUpShape | InsertShape

_LITERALS = frozenset({TokenType.NUMBER, TokenType.STRING})
_MOST_TOKENS = 200
"""Of a text that is recognized: some fifty columns of a look-up, or twenty rows."""

_MOST_CHARACTERS = 1 << 18
"""Of the names in all shapes that are kept: of a thousand to ten thousand texts, in some 20 MB with their tokens."""

_ShapeKey = tuple[tuple[TokenType, str], ...]

_kept: Recent[_ShapeKey, TextShape] = Recent(_MOST_CHARACTERS, share=64)

_STRING = re.compile(r"'([^'\\]*)'")
_NUMBER = re.compile(r"(?<![A-Za-z_0-9.])([0-9]+)(?![A-Za-z_0-9.])")
_LITERAL = re.compile(f"{_STRING.pattern}|{_NUMBER.pattern}")
_PLAIN = re.compile(r"[A-Za-z_0-9 \n.,*=()']*")
"""Of a text without the values of its literals: nothing that could be a comment, a name in quotes, a parameter or a sign."""

_MOST_OF_A_TEXT = 2_000
"""Characters."""


_kept_texts: Recent[str, tuple[TextShape, int]] = Recent(_MOST_CHARACTERS, share=64)
"""What texts are that differ in their literals alone, and how many tokens each has, for the bounds of a session."""


def seen_text(text: str) -> tuple[TextShape, tuple[str, ...], int] | None:
    """The shape of a text, its literals, and its number of tokens, if one was seen that differs in its literals alone: then
    nothing divides it into tokens, which is a third of a look-up's calls.
    """
    if len(text) > _MOST_OF_A_TEXT or (found := _kept_texts.get(_skeleton(text))) is None:
        return None
    return found[0], _literals_in(text), found[1]


def keep_text(text: str, tokens: Sequence[Token], shape: TextShape) -> None:
    """Keeps what the text is, unless its literals are others by its tokens than by its characters: `'it''s'`, `1.5`. Where
    they are the same for one text, they are for each with this skeleton: it has what is left of all others.
    """
    skeleton = _skeleton(text)
    if len(text) <= _MOST_OF_A_TEXT and _PLAIN.fullmatch(skeleton) and _literals_in(text) == _literals(tokens):
        _kept_texts.put(skeleton, (shape, len(tokens)), len(skeleton))


def _skeleton(text: str) -> str:
    """The text without the values of its literals."""
    return _NUMBER.sub("0", _STRING.sub("''", text))


def _literals_in(text: str) -> tuple[str, ...]:
    return tuple(map("".join, _LITERAL.findall(text)))  # of a text and a number, one is empty


_FIRST = frozenset({TokenType.SELECT, TokenType.INSERT})


def seen_shape(tokens: Sequence[Token]) -> tuple[TextShape, tuple[str, ...]] | None:
    """The shape of a statement, and its literals, if one of this shape was seen before; then nothing parses it."""
    if len(tokens) > _MOST_TOKENS or tokens[0].token_type not in _FIRST:
        return None
    shape = _kept.get(_shape_key(tokens))
    return None if shape is None else (shape, _literals(tokens))


def look_up_in(tokens: Sequence[Token], query: exp.Query) -> LookUp | None:
    """What a query looks up, if it is a look-up; its shape is then kept."""
    if len(tokens) > _MOST_TOKENS or tokens[0].token_type is not TokenType.SELECT:
        return None
    found = _Reader()
    shape = found.shape(query)
    return LookUp(shape, _literals(tokens)) if shape is not None and _keeps(tokens, shape, found) else None


def insert_in(
    tokens: Sequence[Token], table: Ref, columns: tuple[str, ...], alias: str | None, rows: Sequence[Sequence[exp.Expr]]
) -> InsertShape | None:
    """The shape of an INSERT of such rows, which is then kept; None where a value is neither a literal nor a word or a call
    without a name of the text's own.
    """
    if len(tokens) > _MOST_TOKENS or tokens[0].token_type is not TokenType.INSERT:
        return None
    found = _Reader()
    cells = tuple(tuple(map(found.cell, row)) for row in rows)
    shape = InsertShape(table, columns, alias, cells)
    return shape if _keeps(tokens, shape, found) else None


def _keeps(tokens: Sequence[Token], shape: TextShape, found: _Reader) -> bool:
    """Keeps the shape, if each literal of the text is one of those that were found in its tree, in this order."""
    if tuple(found.literals) != _literals(tokens):
        return False
    key = _shape_key(tokens)
    _kept.put(key, shape, sum(len(text) for _, text in key))
    return True


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
        parts = where.flatten(unnest=False) if type(where) is exp.And else (where,)  # in the order of the text
        return LookUpShape(ref, alias, shown, tuple(self._compared(part, alias) for part in parts))

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

    def cell(self, node: exp.Expr) -> Constant | exp.Expr:
        """A value of a row. A cast's literal is not found, which tells it from others."""
        try:
            return self._constant(node)
        except _NoLookUp:
            return node

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


def _only(node: object, kind: type[exp.Expr], *parts: str) -> exp.Expr:
    """The node, if it is of this kind and has no other parts."""
    if type(node) is not kind or any(part and name not in parts for name, part in node.args.items()):
        raise _NoLookUp
    return node
