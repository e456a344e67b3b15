"""Parses SQL text into statements. The whole text is parsed before any of it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlglot.errors import SqlglotError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from lakewarden.errors import BadSyntax, InvalidArgument
from lakewarden.sql.depth import deeper
from lakewarden.sql.grammar import namespaces, rows, show, storages, tables, upkeep, users
from lakewarden.sql.reader import STUMBLES, Lakewarden, Misread, Reader, bad_syntax, place_of
from lakewarden.sql.statements.base import Statement
from lakewarden.sql.statements.others import Declined, ExecuteAs, Forbidden, Placed
from lakewarden.sql.statements.rows import Explain, Query, Subscribe
from lakewarden.sql.text_bounds import TextBounds

_DIALECT = Lakewarden()


def parse(text: str, bounds: TextBounds | None = None) -> list[Placed]:
    """The statements of a text, separated by `;`.

    Raises:
        BadSyntax: the text is not a statement of Lakewarden.
        InvalidArgument, Unsupported: the text is beyond the bounds, or a statement requests what is not possible.
    """
    if bounds is not None:
        bounds.check_text(text)
    found = _tokens(text)
    statements = list(_split(found))
    if bounds is not None:
        bounds.check_tokens(len(found))
        bounds.check_statements(len(statements))
    return [Placed(_statement(tokens, text), *place_of(text, tokens[0].start)) for tokens in statements]


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


def _tokens(text: str) -> list[Token]:
    try:
        return list(_DIALECT.tokenize(text))
    except TokenError as error:
        raise bad_syntax(text, len(text), "a string, a quoted name or a comment is not closed, or a number is invalid") from error


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
    read = Reader(dialect=_DIALECT).begin(tokens, text)
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


def _any(read: Reader) -> Statement:
    for words, grammar in _GRAMMARS.items():
        if read.word(*words.split()):
            return grammar(read)
    for word in _FORBIDDEN:
        if read.word(word):
            read.rest()
            return Forbidden(word)
    for word in _DECLINED:
        if read.word(word):
            read.rest()
            return Declined(word)
    if any(read.word(word) for word in _QUERIES) or read.symbol(TokenType.L_PAREN):
        read._retreat(read._index - 1)
        return rows.query(read)
    raise read.failure("expected a statement such as SELECT, INSERT, CREATE or SHOW")


def _create(read: Reader) -> Statement:
    if read.word("OR", "REPLACE"):
        read.expect("VIEW")
        return tables.create_view(read, or_replace=True)
    prefix = _table_prefix(read)
    if prefix is not None:
        return tables.create_table(read, prefix)
    match _other(read) or read.one_of("TABLE", "NAMESPACE", "STORAGE", "USER", "VIEW"):
        case "TABLE":
            return tables.create_table(read, None)
        case "NAMESPACE":
            return namespaces.create_namespace(read)
        case "STORAGE":
            return storages.create_storage(read)
        case "USER":
            return users.create_user(read)
        case "VIEW":
            return tables.create_view(read, or_replace=False)
        case word:
            return _elsewhere(read, f"CREATE {word}", word in _FUNCTIONS)


def _alter(read: Reader) -> Statement:
    if _table_prefix(read) is not None:
        return tables.alter_table(read)
    match _other(read) or read.one_of("TABLE", "NAMESPACE", "STORAGE", "USER", "VIEW"):
        case "TABLE":
            return tables.alter_table(read)
        case "NAMESPACE":
            return namespaces.alter_namespace(read)
        case "STORAGE":
            return storages.alter_storage(read)
        case "USER":
            return users.alter_user(read)
        case word:
            return _elsewhere(read, f"ALTER {word}", word in _FUNCTIONS)


def _drop(read: Reader) -> Statement:
    prefix = _table_prefix(read)
    if prefix is not None:
        return tables.drop_table(read, prefix)
    match _other(read) or read.one_of("TABLE", "NAMESPACE", "STORAGE", "USER", "VIEW"):
        case "TABLE":
            return tables.drop_table(read, None)
        case "NAMESPACE":
            return namespaces.drop_namespace(read)
        case "STORAGE":
            return storages.drop_storage(read)
        case "USER":
            return users.drop_user(read)
        case "VIEW":
            return tables.drop_view(read)
        case word:
            return _elsewhere(read, f"DROP {word}", word in _FUNCTIONS)


def _other(read: Reader) -> str | None:
    """Kinds of objects that are recognized and not supported."""
    return next((word for word in (*_TOPICS, *_FUNCTIONS) if read.word(word)), None)


def _elsewhere(read: Reader, what: str, forbidden: bool) -> Statement:
    read.rest()
    return Forbidden(what) if forbidden else Declined(what)


def _table_prefix(read: Reader) -> str | None:
    return next((kind for kind in tables.TYPES if read.word(kind, "TABLE")), None)


def _set(read: Reader) -> Statement:
    if read.word("NAMESPACE"):
        return namespaces.use(read)
    read.rest()
    return Forbidden("SET")


def _execute(read: Reader) -> Statement:
    """EXECUTE AS USER 'u' (one statement)."""
    read.expect("AS", "USER")
    if read.over or not (user := read.name_or_text("a user").strip()):
        raise read.failure("expected the name of the user")
    start = read._index
    read.open()
    inner = read.bracketed()
    if len(list(_split(inner))) != 1:
        raise read.misread("EXECUTE AS USER takes exactly one statement in brackets", read._tokens[start])
    return ExecuteAs(user, _statement(next(_split(inner)), read.sql))


def _explain(read: Reader) -> Statement:
    return Explain(read.query())


_GRAMMARS: dict[str, Callable[[Reader], Statement]] = {
    "CREATE": _create,
    "ALTER": _alter,
    "DROP": _drop,
    "USE": namespaces.use,
    "SET": _set,
    "SHOW": show.show,
    "DESCRIBE": show.describe,
    "DESC": show.describe,
    "STORAGE": storages.storage,
    "INSERT": rows.insert,
    "UPDATE": rows.update,
    "DELETE": rows.delete,
    "EXECUTE": _execute,
    "EXPLAIN": _explain,
    "EXPORT": upkeep.export,
    "IMPORT": upkeep.import_,
    "BACKUP": upkeep.backup,
    "RESTORE": upkeep.restore,
    "OPTIMIZE": upkeep.optimize,
    "VACUUM": upkeep.vacuum,
    "APPLY": upkeep.apply,
    "KILL": upkeep.kill,
    "SUBSCRIBE": upkeep.subscribe,
}
_QUERIES = ("SELECT", "WITH", "FROM", "VALUES", "TABLE")
_FORBIDDEN = (
    *("COPY", "ATTACH", "DETACH", "PRAGMA", "RESET", "INSTALL", "LOAD", "CALL", "CHECKPOINT", "PREPARE", "DEALLOCATE"),
    *("SUMMARIZE", "GRANT", "REVOKE", "CONNECT", "DISCONNECT", "FORCE"),
)
_DECLINED = (
    *("BEGIN", "START", "COMMIT", "ROLLBACK", "ABORT", "SAVEPOINT", "TRUNCATE", "MERGE", "PIVOT", "UNPIVOT"),
    *("CONSUME", "ACK", "CLEAR", "CLUSTER"),
)
_TOPICS = ("TOPIC", "VECTOR", "INDEX")
_FUNCTIONS = ("FUNCTION", "MACRO", "SECRET", "SCHEMA", "DATABASE", "SEQUENCE", "TYPE", "TEMPORARY", "TEMP")
