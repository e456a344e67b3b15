"""Parses SQL text into statements. The whole text is parsed before any of it runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from sqlglot.errors import SqlglotError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from lakewarden.errors import BadSyntax, InvalidArgument
from lakewarden.sql.grammar import look_ups, rows, upkeep
from lakewarden.sql.grammar.dialect import Lakewarden, NumberedDialect, Value, count_of, filled
from lakewarden.sql.reader import STUMBLES, StatementReader
from lakewarden.sql.specs.spec import Grammar
from lakewarden.sql.specs.statements import grammars, objects
from lakewarden.sql.statements.base import Statement
from lakewarden.sql.statements.others import ExecuteAs, Forbidden, PlacedStatement, UnsupportedStatement
from lakewarden.sql.statements.rows import Query, Subscribe
from lakewarden.sql.statements.session import BlockStatement
from lakewarden.sql.text_bounds import Misread, TextBounds, bad_syntax, deeper, place_of

_DIALECT, _NUMBERED = Lakewarden(), NumberedDialect()


def parse(text: str, bounds: TextBounds | None = None, params: Sequence[Value] | None = None) -> list[PlacedStatement]:
    """The statements of a text, separated by `;`.

    Args:
        params: the values of its `?`, in order over all statements, or of its `$1`, `$2`; None leaves them unread.

    Raises:
        BadSyntax: the text is not a statement of Lakewarden.
        InvalidArgument, Unsupported: the text is beyond the bounds, or a statement requests what is not possible.
    """
    if bounds is not None:
        bounds.check_text(text)
    found = _tokens(text) if params is None else filled(_tokens(text, numbered=bool(params)), params)
    return [PlacedStatement(_statement(tokens, text), *place_of(text, tokens[0].start)) for tokens in _divided(found, bounds)]


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
        for tokens in _divided(_tokens(text, numbered=True), bounds)
    ]


def parse_unfilled(text: str) -> Statement:
    """One statement whose parameters have no values yet: they are placeholders in its trees. Raises as `parse`."""
    return _statement(_tokens(text, numbered=True), text)


def parse_query(text: str) -> Statement:
    """The one statement of a stored view."""
    return _statement(_tokens(text), text)


def parse_subscription(text: str, bounds: TextBounds | None = None) -> Statement:
    """A SUBSCRIBE, also where the text is a SELECT alone.

    Raises:
        BadSyntax, InvalidArgument: it is not a SUBSCRIBE, or not a single statement.
    """
    found = [placed.statement for placed in parse(text, bounds)]
    match found:
        case [Query(query)]:
            return Subscribe(upkeep.one_table(query))
        case [Subscribe() as statement] | [ExecuteAs(statement=Subscribe()) as statement]:
            return statement
        case _:
            raise InvalidArgument("a subscription is one statement: SELECT … FROM table WHERE …, or SUBSCRIBE TO …")


def _tokens(text: str, *, numbered: bool = False) -> list[Token]:
    try:
        return list((_NUMBERED if numbered else _DIALECT).tokenize(text))
    except TokenError as error:
        raise bad_syntax(text, len(text), "a string, a quoted name or a comment is not closed, or a number is invalid") from error


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
    """Not parsed where it is a look-up as one before, but for its values."""
    found = look_ups.query_of(tokens, lambda: cast("Query", _read(tokens, text)))
    if found is not None:
        return found
    read = _read(tokens, text)
    return look_ups.recognized(tokens, read) if isinstance(read, Query) else read


def _read(tokens: list[Token], text: str) -> Statement:
    read = StatementReader(dialect=_DIALECT).begin(tokens, text)
    try:
        with deeper():
            found = _any(read)
        upkeep.nothing_more(read)
    except Misread as error:
        raise bad_syntax(text, error.at, str(error)) from error
    except SqlglotError as error:
        raise bad_syntax(text, read.here, str(error).splitlines()[0]) from error
    except STUMBLES as error:
        raise bad_syntax(text, read.here, "this is not understood") from error
    except RecursionError as error:
        raise BadSyntax("the statement is nested too deep to be read") from error
    return found


def _any(read: StatementReader) -> Statement:
    for words, grammar in _GRAMMARS.get(read.keyword, {}).items():
        if read.word(*words.split()):
            return grammar(read)
    for word, around in _OTHERS.items():
        if read.word(word):
            return around(read)
    if verb := next((verb for verb in _VERBS if read.word(verb)), None):
        return _not_ours(read, verb)
    for refusals, refused in ((_FORBIDDEN, Forbidden), (_DECLINED, UnsupportedStatement)):
        if found := next((word for word in refusals if read.word(word)), None):
            read.rest()
            return refused(found)
    if read.symbol(TokenType.L_PAREN):
        return rows.query(read)
    raise read.failure("expected a statement such as SELECT, INSERT, CREATE or SHOW")


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
    if isinstance(found, BlockStatement):
        raise read.misread("a block is the session's own: write BEGIN and COMMIT outside the brackets", read._tokens[start])
    return ExecuteAs(user, found)


_GRAMMARS = grammars()
_OBJECTS = objects("CREATE")
_OTHERS: dict[str, Grammar] = {"EXECUTE": _execute, "IMPORT": upkeep.import_, "BACKUP": upkeep.backup}
_VERBS = ("CREATE", "ALTER", "DROP")
_FORBIDDEN = (
    *("SET", "COPY", "ATTACH", "DETACH", "PRAGMA", "RESET", "INSTALL", "LOAD", "CALL", "CHECKPOINT", "PREPARE", "DEALLOCATE"),
    *("SUMMARIZE", "GRANT", "REVOKE", "CONNECT", "DISCONNECT", "FORCE"),
)
_DECLINED = (
    *("START", "PIVOT", "UNPIVOT"),
    *("CONSUME", "ACK", "CLEAR", "CLUSTER"),
)
_TOPICS = ("TOPIC", "VECTOR", "INDEX")
_FUNCTIONS = ("FUNCTION", "MACRO", "SECRET", "SCHEMA", "DATABASE", "SEQUENCE", "TYPE", "TEMPORARY", "TEMP")
