"""Parses SQL text into statements. The whole text is parsed before any of it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, cast

from sqlglot.tokenizer_core import Token, TokenType

from lakewarden.sql.dialect import QUERIES_BEGIN, Value, count_of, filled, read_whole, tokens_of
from lakewarden.sql.queries.look_up_texts import LookUp, LookUpShape, TextShape, keep_text, seen_shape, seen_text
from lakewarden.sql.reader import StatementReader
from lakewarden.sql.statement import (
    ExecuteAs,
    Forbidden,
    Grammar,
    Statement,
    StatementSpec,
    UnsupportedStatement,
)
from lakewarden.sql.statements.query import Query, read_query
from lakewarden.sql.text_bounds import TextBounds

FAMILIES: Mapping[str, tuple[str, ...]] = {
    "query": (*QUERIES_BEGIN, "EXPLAIN"),
    "session": (*("BEGIN", "START", "COMMIT", "END", "ROLLBACK", "ABORT", "SAVEPOINT", "RELEASE"), "SET", "RESET", "SHOW"),
    "insert": ("INSERT", "TRUNCATE"),
    "change": ("UPDATE", "DELETE"),
    "merge": ("MERGE",),
    "subscribe": ("SUBSCRIBE",),
    "create_table": ("CREATE",),
    "create_as": (),
    "alter_table": ("ALTER", "DROP"),
    "temporary_tables": ("CREATE", "DROP"),
    "dynamic_tables": ("SET",),
    "namespaces": ("CREATE", "ALTER", "DROP", "USE", "SET", "ENABLE", "DISABLE"),
    "storages": ("CREATE", "ALTER", "DROP"),
    "users": ("CREATE", "ALTER", "DROP"),
    "pipelines": ("ALTER", "DROP"),
    "show": ("SHOW", "DESCRIBE", "DESC"),
    "upkeep": ("OPTIMIZE", "VACUUM", "RESTORE", "APPLY"),
    "jobs": ("STORAGE", "KILL", "EXPORT"),
}
"""The modules of `sql/statements`, and the first words of what each reads. One is imported with the first text that begins so:
most of them import operations and Delta, which a query without tables does not need.
"""


@cache
def family(name: str) -> Any:
    """The module of a family, which has `ROWS` and `GRAMMARS`."""
    return import_module(f"lakewarden.sql.statements.{name}")


def statement_specs() -> Iterator[StatementSpec]:
    """The rows of all statements, in the order of the reference."""
    return (spec for name in FAMILIES for spec in family(name).ROWS)


def parse(text: str, bounds: TextBounds | None = None, params: Sequence[Value] | None = None) -> list[Statement]:
    """The statements of a text, separated by `;`.

    Args:
        params: the values of its `?`, in order over all statements, or of its `$1`, `$2`; None leaves them unread.

    Raises:
        BadSyntax: the text is not a statement of Lakewarden.
        InvalidArgument, Unsupported: the text is beyond the bounds, or a statement requests what is not possible.
    """
    if bounds is not None:
        bounds.check_text(text)
    if not params and (seen := seen_text(text)) is not None:
        shape, literals, number = seen
        if bounds is not None:
            bounds.check_tokens(number)
        return [_shaped(shape, literals, lambda: read_whole(tokens_of(text), text, _any))]
    found = tokens_of(text) if params is None else filled(tokens_of(text, numbered=bool(params)), params)
    made = [_statement(tokens, text) for tokens in _divided(found, bounds)]
    if not params and len(made) == 1 and (known := seen_shape(found)) is not None:
        keep_text(text, found, known[0])
    return made


@dataclass(frozen=True)
class Single:
    """One statement of a text, not parsed yet."""

    text: str
    tokens: tuple[str, ...]
    """Without the quotes of texts and names."""
    parameters: int
    """The highest n of its `$n`."""


def singles(text: str, bounds: TextBounds | None = None) -> list[Single]:
    """The statements of a text with or without `$1`, for those who have to tell them apart before they are parsed.

    Raises:
        BadSyntax, InvalidArgument: the text does not consist of tokens, or is beyond the bounds.
    """
    if bounds is not None:
        bounds.check_text(text)
    return [
        Single(text[tokens[0].start : tokens[-1].end + 1], tuple(token.text for token in tokens), count_of(tokens))
        for tokens in _divided(tokens_of(text, numbered=True), bounds)
    ]


def parse_unfilled(text: str) -> Statement:
    """One statement whose parameters have no values yet: they are placeholders in its trees. Raises as `parse`."""
    return _statement(tokens_of(text, numbered=True), text)


def _divided(found: list[Token], bounds: TextBounds | None) -> list[list[Token]]:
    """The tokens of each statement. Raises InvalidArgument if there are too many, or too many statements."""
    statements = list(_split(found))
    if bounds is not None:
        bounds.check_tokens(len(found))
        bounds.check_statements(len(statements))
    return statements


def _split(tokens: list[Token]) -> Iterator[list[Token]]:
    """Splits at the semicolons outside brackets: EXECUTE AS USER has a statement in brackets."""
    depth, start = 0, 0
    for index, token in enumerate(tokens):
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        if token.token_type is TokenType.SEMICOLON and depth <= 0:
            if index > start:
                yield tokens[start:index]
            start, depth = index + 1, 0
    if len(tokens) > start:
        yield tokens[start:]


def _statement(tokens: list[Token], text: str) -> Statement:
    """Not parsed where it is as one before, but for its values."""
    if (seen := seen_shape(tokens)) is not None:
        return _shaped(*seen, lambda: read_whole(tokens, text, _any))
    return read_whole(tokens, text, _any).recognized(tokens)


def _shaped(shape: TextShape, literals: tuple[str, ...], parsed: Callable[[], Statement]) -> Statement:
    """The statement of a shape, with these literals."""
    if isinstance(shape, LookUpShape):
        return Query(lambda: cast("Query", parsed()).query, LookUp(shape, literals))
    made: Statement = family("insert").Insert(shape.table, shape.columns, shape.query(literals), None, shape.alias)
    return made


def _any(read: StatementReader) -> Statement:
    for words, grammar in _grammars(read.keyword).items():
        if read.word(*words.split()):
            return grammar(read)
    if read.word("EXECUTE"):
        return _execute(read)
    if verb := next((verb for verb in _VERBS if read.word(verb)), None):
        return _not_ours(read, verb)
    for refusals, refused in ((_FORBIDDEN, Forbidden), (_DECLINED, UnsupportedStatement)):
        if found := next((words for words in refusals if read.word(*words.split())), None):
            read.rest()
            return refused(found)
    if read.symbol(TokenType.L_PAREN):
        return read_query(read)
    raise read.failure("expected a statement such as SELECT, INSERT, CREATE or SHOW")


@cache
def _grammars(first: str) -> Mapping[str, Grammar]:
    """What reads a statement, by all the words that it begins with, of which this is the first: longer ones first."""
    found: dict[str, Grammar] = {}
    for name, firsts in FAMILIES.items():
        if first in firsts:
            found |= {words: grammar for words, grammar in family(name).GRAMMARS.items() if words.split()[0] == first}
    return dict(sorted(found.items(), key=lambda one: -len(one[0].split())))


def _not_ours(read: StatementReader, verb: str) -> Statement:
    """CREATE, ALTER or DROP of something that it does not take, though another of them may."""
    word = next((word for word in (*_TOPICS, *_FUNCTIONS) if read.word(word)), None) or read.one_of(*_OBJECTS)
    read.rest()
    return Forbidden(f"{verb} {word}") if word in _FUNCTIONS else UnsupportedStatement(f"{verb} {word}")


def _execute(read: StatementReader) -> Statement:
    """EXECUTE AS USER 'u' (one statement)."""
    read.expect("AS", "USER")
    if read.over or not (user := read.name_or_text("a user").strip()):
        raise read.failure("expected the name of the user")
    start = read._index
    read.open()
    inner = read.bracketed()
    if len(list(_split(inner))) != 1:
        raise read.misread("EXECUTE AS USER takes exactly one statement in brackets", read._tokens[start])
    found = _statement(next(_split(inner)), read.sql)
    if found.effect == "block":
        raise read.misread("a block is the session's own: write BEGIN and COMMIT outside the brackets", read._tokens[start])
    return ExecuteAs(user, found)


_VERBS = ("CREATE", "ALTER", "DROP")
_OBJECTS = ("TABLE", "NAMESPACE", "STORAGE", "USER", "VIEW")
"""What CREATE takes."""
_FORBIDDEN = (
    *("SET", "COPY", "ATTACH", "DETACH", "PRAGMA", "RESET", "INSTALL", "LOAD", "CALL", "CHECKPOINT", "PREPARE", "DEALLOCATE"),
    *("SUMMARIZE", "GRANT", "REVOKE", "CONNECT", "DISCONNECT", "FORCE", "IMPORT DATABASE"),
)
_DECLINED = (
    *("START", "PIVOT", "UNPIVOT"),
    *("CONSUME", "ACK", "CLEAR", "CLUSTER", "BACKUP DATABASE", "IMPORT TABLE"),
)
_TOPICS = ("TOPIC", "VECTOR", "INDEX")
_FUNCTIONS = ("FUNCTION", "MACRO", "SECRET", "SCHEMA", "DATABASE", "SEQUENCE", "TYPE", "TEMPORARY", "TEMP")
