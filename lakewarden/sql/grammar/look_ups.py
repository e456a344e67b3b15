"""Recognizes look-ups: `SELECT columns FROM table WHERE column = literal AND …`, and nothing else.

The shape of a text is its tokens without the values of its literals. A text whose shape was seen before is not parsed again.
What is kept holds names alone: no value of a user, no right, and nothing of what the names mean, which each run looks up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from lakewarden.base.recent import Recent
from lakewarden.sql.plain_values import name_of
from lakewarden.sql.statements.base import Ref
from lakewarden.sql.statements.rows import Constant, LookUp, LookUpShape, Query, ShownItem

_LITERALS = frozenset({TokenType.NUMBER, TokenType.STRING})
_MOST_TOKENS = 200
"""Of a look-up that is recognized: some fifty columns."""

_MOST_CHARACTERS = 1 << 18
"""Of the names in all shapes that are kept: of a thousand to ten thousand texts, in some 20 MB with their tokens."""

_Key = tuple[tuple[TokenType, str], ...]

_kept: Recent[_Key, LookUpShape] = Recent(_MOST_CHARACTERS, share=64)


def query_of(tokens: Sequence[Token], parsed: Callable[[], Query]) -> Query | None:
    """The query of a text whose shape is known; None of any other. `parsed` is called if its tree is needed."""
    if len(tokens) > _MOST_TOKENS or tokens[0].token_type is not TokenType.SELECT:
        return None
    if (shape := _kept.get(_key(tokens))) is None:
        return None
    literals = tuple(token.text for token in tokens if token.token_type in _LITERALS)
    return Query(lambda: parsed().query, LookUp(shape, literals))


def recognized(tokens: Sequence[Token], query: Query) -> Query:
    """The query, with what it looks up if it is a look-up; its shape is then kept."""
    if len(tokens) > _MOST_TOKENS or tokens[0].token_type is not TokenType.SELECT:
        return query
    found = _Reader()
    shape, literals = found.shape(query.query), tuple(token.text for token in tokens if token.token_type in _LITERALS)
    if shape is None or tuple(found.literals) != literals:  # each literal of the text is one of the look-up, in this order
        return query
    key = _key(tokens)
    _kept.put(key, shape, sum(len(text) for _, text in key))
    return Query(lambda: query.query, LookUp(shape, literals))


def _key(tokens: Sequence[Token]) -> _Key:
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
        return self._constant(node) if isinstance(node, exp.Literal) else _column(node, alias)

    def _compared(self, node: exp.Expr, alias: str) -> tuple[str, Constant]:
        _only(node, exp.EQ, "this", "expression")
        one, other = node.this, node.expression
        column, value = (one, other) if isinstance(one, exp.Column) else (other, one)
        return _column(column, alias), self._constant(value)

    def _constant(self, node: exp.Expr, *, negative: bool = False) -> Constant:
        """A literal, or a negative number, which is in brackets where it comes from a parameter."""
        if type(node) is exp.Paren and type(node.this) is exp.Neg:
            return self._constant(node.this)
        if type(node) is exp.Neg and not negative and not node.this.is_string:
            return self._constant(node.this, negative=True)
        _only(node, exp.Literal, "this", "is_string")
        self.literals.append(str(node.this))
        return Constant(len(self.literals) - 1, bool(node.is_string), negative)


def _column(node: exp.Expr, alias: str) -> str:
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
