"""Parses statements that choose how a session reads, and what it creates."""

from __future__ import annotations

from sqlglot.tokenizer_core import TokenType

from lakewarden.base.commit_metadata import parsed_metadata
from lakewarden.catalog.dynamic_declaration import PREFIX, check_session_option
from lakewarden.sql.reader import StatementReader
from lakewarden.sql.statements.base import Statement
from lakewarden.sql.statements.others import Forbidden
from lakewarden.sql.statements.session import SetFreshness, SetMetadata, SetTableStorage, ShowMetadata
from lakewarden.tables.reading.freshness import check_freshness


def set_freshness(read: StatementReader) -> Statement:
    """Raises:
    InvalidArgument: there is no such freshness.
    """
    if not (read.symbol(TokenType.EQ) or read.word("TO")):
        raise read.failure("expected =")
    return SetFreshness(check_freshness(read.name_or_text("a freshness").lower()))


def set_metadata(read: StatementReader) -> Statement:
    """Raises:
    InvalidArgument: it is no JSON object, or too large.
    """
    if not (read.symbol(TokenType.EQ) or read.word("TO")):
        raise read.failure("expected =")
    return SetMetadata("" if read.word("DEFAULT") else parsed_metadata(read.text("a JSON object")))


def reset_metadata(_: StatementReader) -> Statement:
    return SetMetadata("")


def show_metadata(_: StatementReader) -> Statement:
    return ShowMetadata()


def set_table_storage(read: StatementReader) -> Statement:
    """Reads what follows SET, where it is `'table-storage.key' = 'value'`, quoted or not; any other SET is forbidden.

    Raises:
        InvalidArgument: the option does not exist, or cannot have this value.
    """
    start = read.here
    if read.at_text:
        key = read.text("an option")
    else:
        while not (read.over or read._match(TokenType.EQ, advance=False)):
            read._advance()
        key = "".join(read.since(start).split())
    if not key.lower().startswith(PREFIX):
        read.rest()
        return Forbidden("SET")
    if not read.symbol(TokenType.EQ):
        raise read.failure(f"expected = after {key}")
    name = key[len(PREFIX) :]
    value = read.text("a value") if read.at_text else read.rest()
    check_session_option(name, value)
    return SetTableStorage(name, value)
