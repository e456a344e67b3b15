"""Parses statements that choose how a session reads."""

from __future__ import annotations

from sqlglot.tokenizer_core import TokenType

from lakewarden.operations.reading.freshness import check_freshness
from lakewarden.sql.reader import Reader
from lakewarden.sql.statements.base import Statement
from lakewarden.sql.statements.session import SetFreshness


def set_freshness(read: Reader) -> Statement:
    """Raises:
    InvalidArgument: there is no such freshness.
    """
    if not (read.symbol(TokenType.EQ) or read.word("TO")):
        raise read.failure("expected =")
    return SetFreshness(check_freshness(read.name_or_text("a freshness").lower()))
