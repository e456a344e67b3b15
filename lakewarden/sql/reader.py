"""Reads tokens: sqlglot's parser of DuckDB's dialect, with the methods that Lakewarden's own statements need.

sqlglot parses queries, expressions and DML; what it would return unparsed (`Command`) is an error here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import Any, ClassVar, NoReturn, TypeVar

from sqlglot import exp
from sqlglot.parsers.duckdb import DuckDBParser
from sqlglot.tokenizer_core import Token, TokenType

from lakewarden.catalog.names import is_sql_word
from lakewarden.delta.past import AsOf
from lakewarden.errors import BadSyntax, InvalidArgument
from lakewarden.sql.ref import Pairs, Ref
from lakewarden.sql.text_bounds import Misread, bad_syntax, holds_secret

T = TypeVar("T")

logging.getLogger("sqlglot").addHandler(logging.NullHandler())  # else its warnings go to stderr where logging is not configured

STUMBLES = (AttributeError, IndexError, KeyError, TypeError, ValueError)
"""What sqlglot raises on malformed text besides its own errors: it does not check every word that it expects."""

CATALOG = "lakewarden"
"""The one catalog of a warehouse, as a name of three parts begins."""

_QUOTED = frozenset({TokenType.STRING, TokenType.IDENTIFIER})
_AGAIN, _AGAIN_AT_LEAST = 20, 10_000
"""How often each token may be read again, on average; queries read every second one once."""
_VERSIONS, _AS_OF = ("VERSION", "TIMESTAMP"), ("AS", "OF")
_DIGITS = 18
"""For a whole number that is not a value: counts and versions have 64 bits."""


class StatementReader(DuckDBParser):
    """Reads one statement. Each method that reads something moves past it, or raises Misread."""

    FUNC_TOKENS: ClassVar[set[TokenType]] = DuckDBParser.FUNC_TOKENS | {TokenType.FILE}
    # A DECIMAL without digits stays so: sqlglot would make it DuckDB's (18, 3), and `queries.literals` gives it its digits.
    TYPE_CONVERTERS: ClassVar[dict[exp.DType, Callable[[exp.DataType], exp.DataType]]] = {
        kind: convert for kind, convert in DuckDBParser.TYPE_CONVERTERS.items() if kind is not exp.DType.DECIMAL
    }
    _follows = ""
    _again = 1_000_000
    """Tokens that may still be read once more: some nested calls would be tried in 2 to the power of their depth ways."""

    def begin(self, tokens: list[Token], sql: str) -> StatementReader:
        self.reset()
        self._again = _AGAIN * len(tokens) + _AGAIN_AT_LEAST
        self.sql = sql
        self._chunks = [tokens]
        self._advance_chunk()
        return self

    def _retreat(self, index: int) -> None:
        if index < self._index:
            self._again -= self._index - index
            if self._again < 0:
                raise BadSyntax("the statement is nested in too many ways that each have to be tried")
        super()._retreat(index)

    def raise_error(self, message: str, token: Token | None = None) -> NoReturn:
        ours = "something is missing or misplaced here" if message.startswith("Required ") or "<" in message else message
        raise self.misread(ours, token)

    def misread(self, message: str, token: Token | None = None) -> Misread:
        """The error at a token, else at the next one."""
        found = token or self._curr or self._prev
        past = not token and not self._curr
        return Misread(message, (found.end + 1 if past else found.start) if found else 0)

    def failure(self, message: str) -> Misread:
        """As `misread` at the next token, which the message names."""
        found = "the end of the statement" if self.over else "something else" if holds_secret(self.sql) else repr(self._curr.text)
        return self.misread(f"{message}, found {found}")

    def _parse_as_command(self, start: Token) -> NoReturn:
        self.raise_error(f"{start.text.upper()} is not understood here", start)

    def _warn_unsupported(self) -> NoReturn:
        self.raise_error("this form of the statement is not understood")

    # Words

    @property
    def over(self) -> bool:
        return not self._curr

    @property
    def here(self) -> int:
        """Where the next token begins in the text."""
        return self._curr.start if self._curr else len(self.sql)

    @property
    def keyword(self) -> str:
        """The next word, in capitals; empty at the end and at quoted text."""
        words = [] if not self._curr or self._curr.token_type in _QUOTED else self._curr.text.upper().split()
        return words[0] if words else ""

    def word(self, *words: str) -> bool:
        """Reads these keywords if they come next. Quoted text is never a keyword."""
        index = self._index
        left = list(words)
        while left:
            parts = [] if not self._curr or self._curr.token_type in _QUOTED else self._curr.text.upper().split()
            if not parts or parts != left[: len(parts)]:
                self._retreat(index)
                return False
            del left[: len(parts)]
            self._advance()
        return True

    def expect(self, *words: str) -> None:
        if not self.word(*words):
            raise self.failure(f"expected {' '.join(words)}")

    def one_of(self, *words: str) -> str:
        """Which of these keywords comes next."""
        for word in words:
            if self.word(*word.split()):
                return word
        raise self.failure(f"expected {', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else f"expected {words[0]}")

    def symbol(self, type: TokenType) -> bool:
        return bool(self._match(type))

    def open(self) -> None:
        if not self._match(TokenType.L_PAREN):
            raise self.failure("expected (")

    def close(self) -> None:
        if not self._match(TokenType.R_PAREN):
            raise self.failure("expected )")

    def listed(self, read: Callable[[], T], *, none: bool = False) -> list[T]:
        """Reads `(a, b, …)`; with `none` also `()`, which the caller has to refuse."""
        self.open()
        if none and self._match(TokenType.R_PAREN):
            return []
        found = [read()]
        while self._match(TokenType.COMMA):
            found.append(read())
        self.close()
        return found

    def rest(self) -> str:
        """Skips the rest of the statement, and returns its text."""
        start = self.here
        while not self.over:
            self._advance()
        return self.sql[start : self._prev.end + 1] if self._prev.end >= start else ""

    def bracketed(self) -> list[Token]:
        """The tokens up to the bracket that closes the one just read."""
        start, depth = self._index, 1
        while not self.over:
            depth += (self._curr.token_type is TokenType.L_PAREN) - (self._curr.token_type is TokenType.R_PAREN)
            self._advance()
            if depth == 0:
                return self._tokens[start : self._index - 1]
        raise self.failure("expected )")

    def clauses(self, start: int, types: Collection[TokenType]) -> list[str]:
        """The words of these types outside brackets among the tokens read from `start` on, in capitals."""
        depth, found = 0, []
        for token in self._tokens[start : self._index]:
            depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
            if depth == 0 and token.token_type in types:
                found.append(token.text.upper())
        return found

    # Names and values

    def name(self, what: str) -> str:
        """A name, quoted or not; `catalog.names` decides whether it is valid."""
        token = self._curr
        if token and (token.token_type is TokenType.IDENTIFIER or _is_word(token)):
            self._advance()
            return token.text
        raise self.failure(f"expected the name of {what}")

    def column(self, what: str = "a column") -> str:
        """Raises InvalidArgument: a reserved word without quotes."""
        quoted = bool(self._curr) and self._curr.token_type is TokenType.IDENTIFIER
        name = self.name(what)
        if is_sql_word(name) and not quoted:
            raise InvalidArgument(f'column name {name!r} is a reserved word of SQL: write it in double quotes, as in "{name}"')
        return name

    def namespace(self) -> str:
        """`namespace`, or `lakewarden.namespace`.

        Raises:
            InvalidArgument: the name has two parts, of which the first is another catalog.
        """
        first = self.name("a namespace")
        if not self._match(TokenType.DOT):
            return first
        second = self.name("a namespace")
        if first.lower() != CATALOG:
            raise InvalidArgument(f"{first}.{second} has two parts; a namespace has one, or {CATALOG} before it")
        return second

    def ref(self, what: str = "a table") -> Ref:
        """`name` or `namespace.name`; or `lakewarden.namespace.name`, with the name of the only catalog.

        Raises:
            InvalidArgument: the name has three parts, of which the first is another catalog.
        """
        first = self.name(what)
        if not self._match(TokenType.DOT):
            return Ref(first)
        second = self.name(what)
        if not self._match(TokenType.DOT):
            return Ref(second, first)
        third = self.name(what)
        if first.lower() != CATALOG:
            raise InvalidArgument(f"{first}.{second}.{third} has three parts; a table is namespace.table")
        return Ref(third, second)

    def text(self, what: str) -> str:
        """A string in single quotes."""
        if self.at_text:
            self._advance()
            return self._prev.text
        raise self.failure(f"expected {what} in single quotes")

    @property
    def at_text(self) -> bool:
        return bool(self._curr) and self._curr.token_type is TokenType.STRING

    def name_or_text(self, what: str) -> str:
        return self.text(what) if self.at_text else self.name(what)

    def whole(self, what: str) -> int:
        if self._curr and self._curr.token_type is TokenType.NUMBER and self._curr.text.isdigit():
            if len(self._curr.text) > _DIGITS:
                raise self.misread(f"{what} is larger than a 64-bit number")
            self._advance()
            return int(self._prev.text)
        raise self.failure(f"expected {what} as a whole number")

    def number(self, what: str) -> float:
        if self._curr and self._curr.token_type is TokenType.NUMBER:
            self._advance()
            return float(self._prev.text)
        raise self.failure(f"expected {what} as a number")

    def pairs(self) -> Pairs:
        """`(key = value, …)`; a value is a string, or whatever stands up to the next comma."""
        return tuple(self.listed(self._pair, none=True))

    def _pair(self) -> tuple[str, str]:
        key = self.name_or_text("an option")
        while self._match(TokenType.DOT):
            key = f"{key}.{self.name('the rest of an option')}"
        if not self._match(TokenType.EQ):
            raise self.failure(f"expected = after {key}")
        if self.at_text:
            return key, self.text("a value")
        return key, self.value_of(key)

    def value_of(self, key: str) -> str:
        """Whatever stands up to the next comma or closing bracket."""
        start = self._curr
        while self._curr and self._curr.token_type not in (TokenType.COMMA, TokenType.R_PAREN, TokenType.R_BRACKET):
            self._advance()
        if not start or self._prev.end < start.start:
            raise self.failure(f"expected a value of {key}")
        return self.sql[start.start : self._prev.end + 1]

    def since(self, start: int) -> str:
        """The text from an offset up to the last token that was read."""
        return self.sql[start : self._prev.end + 1]

    def source(self, read: Callable[[], object], what: str) -> str:
        """The text of what `read` reads."""
        start = self._curr
        found = read()
        if not start or found is None or self._prev.end < start.start:
            raise self.failure(f"expected {what}")
        return self.sql[start.start : self._prev.end + 1]

    # sqlglot's part

    def expression_text(self, what: str) -> str:
        """An expression of arithmetic and calls, without the keywords that may follow a DEFAULT."""
        return self.source(self._parse_bitwise, what)

    def query(self) -> exp.Query:
        """A whole query: SELECT, WITH, FROM, VALUES, set operations, brackets around them."""
        start = self._curr
        found = self._parse_statement()
        if isinstance(found, exp.Values):
            found = exp.select("*").from_(found)
        if isinstance(found, (exp.Insert, exp.Update, exp.Delete, exp.Merge)) and found.args.get("with_"):
            raise self.misread(
                "WITH begins a query here: write INSERT INTO … WITH … SELECT, or put it into a query in brackets", start
            )
        if not isinstance(found, exp.Query) or (isinstance(found, exp.Subquery) and not isinstance(found.this, exp.Query)):
            raise self.misread("this is not a query", start)
        inner = next(found.find_all(exp.DML, exp.DDL, exp.Command, exp.Into), None)
        if inner is not None and not isinstance(inner, exp.Query):
            raise self.misread("a query only reads: nothing in it may write or create", start)
        return found

    def query_up_to(self, word: str) -> exp.Query:
        """As `query`, in a statement that continues with this word and a bracket, which would read as a table's alias."""
        self._follows = word
        return self.query()

    def _parse_table_alias(self, alias_tokens: Collection[TokenType] | None = None) -> exp.TableAlias | None:
        if self._follows and self._curr.text.upper() == self._follows and self._next.token_type is TokenType.L_PAREN:
            return None
        if self._at_version:
            return None
        if self._curr and self._curr.text == "@":  # sqlglot takes `t@3` for the table t with an alias
            message = "a version is not written behind @: write it as FROM n.t VERSION AS OF 3"
            raise bad_syntax(self.sql, self._curr.start, message)  # sqlglot would try other ways to read what stands before it
        alias = super()._parse_table_alias(alias_tokens)
        if alias is not None and alias.this and not isinstance(alias.this, exp.Identifier):
            self.raise_error("an alias is a name, and no parameter", self._prev)
        if alias is not None and self._at_version:
            self.raise_error("the version comes before the alias: write it as FROM n.t VERSION AS OF 3 AS a")
        return alias

    def _parse_table(self, *args: Any, **options: Any) -> exp.Expr | None:
        found = super()._parse_table(*args, **options)
        if self._at_version:
            self.raise_error("only a table has versions: write it as FROM n.t VERSION AS OF 3")
        return found

    def _parse_table_parts(self, *args: Any, **options: Any) -> exp.Table | exp.Dot | None:
        return _in_one_catalog(super()._parse_table_parts(*args, **options))

    def _parse_column(self) -> exp.Expr | None:
        found = inner = super()._parse_column()
        while isinstance(inner, (exp.Cast, exp.Bracket, exp.Dot)):
            inner = inner.this
        _in_one_catalog(inner)
        return found

    @property
    def _at_version(self) -> bool:
        index = self._index
        found = self._version_kind()
        self._retreat(index)
        return found is not None

    def _version_kind(self) -> str | None:
        """Reads VERSION AS OF or TIMESTAMP AS OF, with or without FOR, if it comes next, and returns its word."""
        if self.keyword not in ("FOR", *_VERSIONS):
            return None
        return next((kind for kind in _VERSIONS if self.word(kind, *_AS_OF) or self.word("FOR", kind, *_AS_OF)), None)

    def _parse_version(self) -> exp.Version | None:
        """Reads which version of a table is meant, if that comes next.

        Raises:
            InvalidArgument: a negative version, or a text that is not a timestamp.
        """
        kind = self._version_kind()
        if kind is None:
            return None
        if kind == "VERSION":
            given = str(-self.whole("a version") if self._match(TokenType.DASH) else self.whole("a version"))
            AsOf.of(version=int(given))
        else:
            given = self.text("a timestamp")
            AsOf.of(timestamp=given)
        return exp.Version(this=kind, kind="AS OF", expression=exp.Literal.string(given))

    def condition(self) -> exp.Expr:
        found = self._parse_disjunction()
        if found is None:
            raise self.failure("expected a condition")
        return found


Found = TypeVar("Found", bound="exp.Expr | None")


def _in_one_catalog(found: Found) -> Found:
    """Without the name of the one catalog, so that a table of three parts and a column of four are as those without it."""
    if isinstance(found, (exp.Table, exp.Column)) and found.text("catalog").lower() == CATALOG:
        found.set("catalog", None)
    return found


def _is_word(token: Token) -> bool:
    return token.token_type is not TokenType.STRING and token.text.replace("_", "a").isalnum() and not token.text[0].isdigit()
