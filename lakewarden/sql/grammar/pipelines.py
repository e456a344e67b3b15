"""Parses statements about pipelines and their rules."""

from __future__ import annotations

import json
from functools import partial

from sqlglot.tokenizer_core import TokenType

from lakewarden.errors import InvalidArgument
from lakewarden.sql.reader import StatementReader
from lakewarden.sql.statements.base import Pairs, Ref, Statement
from lakewarden.sql.statements.definitions import AlterRule, CreateFromTemplate, DropPipeline


def from_template(read: StatementReader, table: Ref, kind: str | None, *, missing: bool) -> Statement:
    """Reads what follows the name of the table and FROM TEMPLATE."""
    if kind not in (None, "SHARED"):
        raise InvalidArgument(f"{table}: a template fills SHARED tables, and this is a {kind} table")
    template = read.name_or_text("a template")
    clauses: list[tuple[str, str]] = []
    if read.word("PRIMARY", "KEY"):
        clauses.append(("PRIMARY_KEY", _names(read)))
    if read.word("PARTITION", "BY") or read.word("PARTITIONED", "BY"):
        clauses.append(("PARTITION_BY", _names(read)))
    options = _settings(read) if read.word("WITH") else ()
    return CreateFromTemplate(table, template.lower(), (*clauses, *options), missing)


def alter_rule(read: StatementReader) -> Statement:
    """Reads what follows ALTER RULE: `r SET GLOBS = ('**/*.csv'), ENABLED = false`, in brackets or without."""
    rule = read.name_or_text("a rule")
    read.expect("SET")
    if read._match(TokenType.L_PAREN, advance=False):
        return AlterRule(rule, _settings(read))
    changes = [_setting(read)]
    while read.symbol(TokenType.COMMA):
        changes.append(_setting(read))
    return AlterRule(rule, tuple(changes))


def drop_pipeline(read: StatementReader) -> Statement:
    there = read.word("IF", "EXISTS")
    return DropPipeline(read.name_or_text("a pipeline"), there)


def _settings(read: StatementReader) -> Pairs:
    return tuple(read.listed(partial(_setting, read), none=True))


def _setting(read: StatementReader) -> tuple[str, str]:
    key = read.name_or_text("an option")
    if not read.symbol(TokenType.EQ):
        raise read.failure(f"expected = after {key}")
    if read.word("ARRAY") or read._match(TokenType.L_BRACKET, advance=False):
        return key, _listed(read, TokenType.L_BRACKET, TokenType.R_BRACKET)
    if read._match(TokenType.L_PAREN, advance=False):
        return key, _listed(read, TokenType.L_PAREN, TokenType.R_PAREN)
    if read.at_text:
        return key, read.text("a value")
    return key, read.value_of(key)


def _names(read: StatementReader) -> str:
    return json.dumps(read.listed(read.column))


def _listed(read: StatementReader, opens: TokenType, closes: TokenType) -> str:
    """A list of names, texts, numbers and truth values, each as its text; as JSON."""
    if not read.symbol(opens):
        raise read.failure("expected a list")
    found: list[str] = []
    while not read.symbol(closes):
        if found and not read.symbol(TokenType.COMMA):
            raise read.failure("expected , or the end of the list")
        found.append(_entry(read))
    return json.dumps(found)


def _entry(read: StatementReader) -> str:
    if any(read._match(kind, advance=False) for kind in _VALUES):
        return read.value_of("the list")
    return read.name_or_text("a text, a name, a number or a truth value")


_VALUES = (TokenType.NUMBER, TokenType.DASH, TokenType.TRUE, TokenType.FALSE)
