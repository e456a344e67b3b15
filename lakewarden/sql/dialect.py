"""The dialects of texts: DuckDB's words, and Lakewarden's reader; the parameters of a text; and a query as text for DuckDB."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import ClassVar, TypeVar

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ErrorLevel, SqlglotError, TokenError
from sqlglot.generators.duckdb import DuckDBGenerator
from sqlglot.tokenizer_core import Token, TokenType

from lakewarden.errors import BadSyntax, InvalidArgument, Unsupported
from lakewarden.sql.reader import STUMBLES, StatementReader
from lakewarden.sql.text_bounds import Misread, bad_syntax, deeper

T = TypeVar("T")


# The items of a list of one dimension, in PostgreSQL's text format.
_ITEM = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|([^\s",{}\\](?:[^",{}\\]*[^\s",{}\\])?))\s*')
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def items_of_text(text: str) -> list[str | None]:
    """Raises ValueError: it is not a list, or has several dimensions."""
    inner = text.strip()
    if not (inner.startswith("{") and inner.endswith("}")):
        raise ValueError("a list stands in braces")
    inner = inner[1:-1]
    if not inner.strip():
        return []
    found: list[str | None] = []
    at = 0
    while True:
        item = _ITEM.match(inner, at)
        if item is None:
            raise ValueError("what stands between two commas is not a value")
        quoted, plain = item.groups()
        found.append(_ESCAPED.sub(r"\1", quoted) if plain is None else None if plain.upper() == "NULL" else plain)
        at = item.end()
        if at == len(inner):
            return found
        if inner[at] != ",":
            raise ValueError("a comma stands between two values")
        at += 1


class Lakewarden(DuckDB):
    """DuckDB's dialect, where no keyword makes sqlglot skip the rest of the statement."""

    class Tokenizer(DuckDB.Tokenizer):
        COMMANDS: ClassVar[set[TokenType]] = set()
        HEX_STRINGS: ClassVar[list[str | tuple[str, str]]] = [("x'", "'"), ("X'", "'")]
        # `?::INT` is a parameter and a cast; sqlglot has operators of other dialects that begin with ?.
        KEYWORDS: ClassVar[dict[str, TokenType]] = {
            word: kind for word, kind in DuckDB.Tokenizer.KEYWORDS.items() if not word.startswith("?")
        }

    Parser = StatementReader

    class Generator(DuckDBGenerator):
        def cast_sql(self, expression: exp.Cast, safe_prefix: str | None = None) -> str:
            """`'{a,b}'::text[]` is a list in PostgreSQL; as text, DuckDB has lists in square brackets."""
            text = expression.this.unnest()
            if expression.to.this == exp.DType.ARRAY and isinstance(text, exp.Literal) and text.name.startswith("{"):
                with suppress(ValueError):
                    items = [exp.null() if each is None else exp.Literal.string(each) for each in items_of_text(text.name)]
                    expression = exp.Cast(this=exp.Array(expressions=items), to=expression.to.copy())
            return super().cast_sql(expression, safe_prefix)

        def unnest_sql(self, expression: exp.Unnest) -> str:
            """PostgreSQL's takes several arrays, a column each, the shorter ones filled with NULL; DuckDB has that of SELECT."""
            arrays = expression.expressions
            if len(arrays) < 2 or expression.args.get("offset"):
                return super().unnest_sql(expression)
            alias = self.sql(expression, "alias")
            return f"(SELECT {', '.join(f'UNNEST({self.sql(each)})' for each in arrays)}){f' AS {alias}' if alias else ''}"


class NumberedDialect(Lakewarden):
    """The dialect of a text with parameters. It has no texts in dollars: sqlglot would read `$1,$2` as the beginning of one."""

    class Tokenizer(Lakewarden.Tokenizer):
        HEREDOC_STRINGS: ClassVar[list[str | tuple[str, str]]] = []
        SINGLE_TOKENS: ClassVar[dict[str, TokenType]] = {**DuckDB.Tokenizer.SINGLE_TOKENS, "$": TokenType.PARAMETER}


# The parameters of a text, `?` or `$1`: each becomes the tokens of one value, which no text of a value can leave.
Scalar = str | int | float | bool | bytes | Decimal | None

Value = Scalar | tuple[Scalar, ...]
"""A tuple is a list in SQL: `id = ANY(?)`."""


def filled(tokens: Sequence[Token], values: Sequence[Value]) -> list[Token]:
    """The tokens with a value in place of each parameter.

    Raises:
        InvalidArgument: a parameter has no value, a value has no parameter, or both kinds are mixed.
    """
    found, used, kinds = list[Token](), set[int](), set[str]()
    rest = iter(enumerate(tokens))
    for at, token in rest:
        if token.token_type is TokenType.PLACEHOLDER:
            number = len(used) + 1
        elif token.token_type is TokenType.PARAMETER and (named := _number_after(tokens, at)) is not None:
            number = named
            next(rest)
        else:
            found.append(token)
            continue
        kinds.add(token.text)
        if not 1 <= number <= len(values):
            raise InvalidArgument(f"parameter {number} has no value: {len(values)} are given in params")
        used.add(number)
        found.extend(_tokens_of(values[number - 1], number, token))
    if len(kinds) > 1:
        raise InvalidArgument("the text has both ? and $1: use one of them for all parameters")
    if len(used) < len(values):
        raise InvalidArgument(f"{len(values)} values are given in params, and the text uses {len(used)} of them")
    return found


def count_of(tokens: Sequence[Token]) -> int:
    """The highest n of the `$n` among the tokens; 0 without any."""
    found = (_number_after(tokens, at) for at, token in enumerate(tokens) if token.token_type is TokenType.PARAMETER)
    return max((number for number in found if number is not None), default=0)


def _number_after(tokens: Sequence[Token], at: int) -> int | None:
    after = tokens[at + 1] if at + 1 < len(tokens) else None
    return int(after.text) if after is not None and after.text.isdecimal() and len(after.text) < 6 else None


def _tokens_of(value: Value, number: int, place: Token) -> Iterator[Token]:
    """A negative number is in brackets, as the sign would bind less than what may follow."""
    match value:
        case None:
            yield _at(place, TokenType.NULL, "NULL")
        case tuple():
            yield _at(place, TokenType.L_BRACKET, "[")
            for at, each in enumerate(value):
                if at:
                    yield _at(place, TokenType.COMMA, ",")
                yield from _tokens_of(each, number, place)
            yield _at(place, TokenType.R_BRACKET, "]")
        case bool():
            yield _at(place, TokenType.TRUE if value else TokenType.FALSE, str(value).upper())
        case str():
            yield _at(place, TokenType.STRING, value)
        case bytes():
            yield _at(place, TokenType.HEX_STRING, value.hex())
        case float() | Decimal() if not _is_finite(value):
            yield _at(place, TokenType.STRING, str(value).removeprefix("s"))  # a signaling NaN is one all the same
            yield _at(place, TokenType.DCOLON, "::")
            yield _at(place, TokenType.DOUBLE, "DOUBLE")
        case _:
            yield from _number(_digits(value), place)


def _number(digits: str, place: Token) -> Iterator[Token]:
    if not digits.startswith("-"):
        yield _at(place, TokenType.NUMBER, digits)
        return
    yield _at(place, TokenType.L_PAREN, "(")
    yield _at(place, TokenType.DASH, "-")
    yield _at(place, TokenType.NUMBER, digits[1:])
    yield _at(place, TokenType.R_PAREN, ")")


def _is_finite(value: float | Decimal) -> bool:
    return value.is_finite() if isinstance(value, Decimal) else math.isfinite(value)


def _digits(value: float | Decimal) -> str:
    """In SQL, a number with an exponent is DOUBLE, and one with a point alone DECIMAL.

    No arithmetic: a Decimal's own, its sign included, rounds to 28 digits.
    """
    if isinstance(value, Decimal):
        return format(value, "f")
    text = repr(value)
    return f"{text}e0" if "." in text and "e" not in text else text


def _at(place: Token, kind: TokenType, text: str) -> Token:
    return Token(kind, text, place.line, place.col, place.start, place.end)


_DIALECT, _NUMBERED = Lakewarden(), NumberedDialect()


# Reads a text: its tokens, and what the grammar makes of those of one statement.
def tokens_of(text: str, *, numbered: bool = False) -> list[Token]:
    """Args:
        numbered: whether it may have parameters such as `$1`.

    Raises:
        BadSyntax: the text does not consist of tokens.
    """
    try:
        return list((_NUMBERED if numbered else _DIALECT).tokenize(text))
    except TokenError as error:
        raise bad_syntax(text, len(text), "a string, a quoted name or a comment is not closed, or a number is invalid") from error


def read_whole(tokens: list[Token], text: str, grammar: Callable[[StatementReader], T]) -> T:
    """What the grammar reads, which has to be all of the tokens.

    Raises:
        BadSyntax: it is not, or the text is not understood; or as the grammar.
    """
    read = StatementReader(dialect=_DIALECT).begin(tokens, text)
    try:
        with deeper():
            found = grammar(read)
        if not read.over and not read.symbol(TokenType.SEMICOLON):
            raise read.failure("expected the end of the statement")
    except Misread as error:
        raise bad_syntax(text, error.at, str(error)) from error
    except SqlglotError as error:
        raise bad_syntax(text, read.here, str(error).splitlines()[0]) from error
    except STUMBLES as error:
        raise bad_syntax(text, read.here, "this is not understood") from error
    except RecursionError as error:
        raise BadSyntax("the statement is nested too deep to be read") from error
    return found


QUERIES_BEGIN = ("SELECT", "WITH", "FROM", "VALUES", "TABLE")
"""The words that a query begins with, if it is not in brackets."""


def query_in(text: str) -> exp.Query | None:
    """The query that a text is, as that of a view; None for any other text. Raises as `read_whole`."""
    tokens = tokens_of(text)
    if not tokens or tokens[0].text.upper() not in (*QUERIES_BEGIN, "("):
        return None
    return read_whole(tokens, text, lambda read: read.query())


def text_of(query: exp.Expr) -> str:
    """The tree as DuckDB reads it.

    Raises:
        BadSyntax: the tree cannot be written in DuckDB's dialect.
    """
    return _written(query)[0]


def whole_text_of(query: exp.Expr) -> str:
    """As `text_of`, but refuses to omit any part of the tree.

    Raises:
        Unsupported: DuckDB lacks a feature that the tree uses.
    """
    sql, doubts = _written(query)
    if doubts and _DIALECT.parse(sql) != [query]:
        raise Unsupported(f"the query cannot be written for DuckDB: {'; '.join(doubts)}")
    return sql


def _written(query: exp.Expr) -> tuple[str, list[str]]:
    """The text, and sqlglot's warnings about parts that DuckDB may not accept."""
    generator = _DIALECT.generator(comments=False, unsupported_level=ErrorLevel.IGNORE)
    try:
        with deeper():
            return generator.generate(query), generator.unsupported_messages
    except (SqlglotError, RecursionError, *STUMBLES) as error:
        raise BadSyntax(f"the query cannot be written for DuckDB: {str(error) or 'it is nested too deep'}") from error
