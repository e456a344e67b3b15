"""The bounds of a text, checked before anything is parsed: parsing takes time, and nothing can stop it. And errors of syntax."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sqlglot.errors import ParseError

from lakewarden.base.setting_sections import SqlSettings
from lakewarden.errors import BadSyntax, InvalidArgument

_INSTEAD = "send several smaller texts, or write many rows as Arrow with `lake.session(…).table(…).write`"


@dataclass(frozen=True)
class TextBounds:
    """The operator's texts have none."""

    bytes: int
    tokens: int
    statements: int

    @classmethod
    def of(cls, settings: SqlSettings) -> TextBounds:
        return cls(settings.text_bytes, settings.text_tokens, settings.text_statements)

    def check_text(self, text: str) -> None:
        """Raises InvalidArgument: the text is too long."""
        size = len(text) if len(text) > self.bytes else len(text.encode(errors="surrogatepass"))
        if size > self.bytes:
            raise _beyond(size, "bytes", self.bytes, "text_bytes")

    def check_tokens(self, tokens: int) -> None:
        if tokens > self.tokens:
            raise _beyond(tokens, "words, values and signs", self.tokens, "text_tokens")

    def check_statements(self, statements: int) -> None:
        if statements > self.statements:
            raise _beyond(statements, "statements", self.statements, "text_statements")


def _beyond(found: int, what: str, most: int, setting: str) -> InvalidArgument:
    return InvalidArgument(f"the text has {found:,} {what}; {most:,} are allowed (sql.{setting}): {_INSTEAD}")


# Raises Python's recursion limit for deeply nested text: sqlglot nests about twenty calls for every bracket.
_CALLS = 8_000
"""Enough for more than 300 brackets. Pure Python calls take little stack: one megabyte is enough for these."""

_lock = threading.Lock()
_users: list[int] = []
"""The limit that each caller found."""


@contextmanager
def deeper() -> Iterator[None]:
    """Allows calls of this depth inside the block, in every thread: the limit belongs to the process."""
    with _lock:
        _users.append(sys.getrecursionlimit())
        sys.setrecursionlimit(max(_CALLS, *_users))
    try:
        yield
    finally:
        with _lock:
            found = _users[0]
            _users.pop()
            if not _users:
                sys.setrecursionlimit(found)


# Errors of syntax, with their place in the text, which is quoted unless it may hold a secret.
_SNIPPET = 30
_OWNER = re.compile(r"\b(USER|STORAGE)\b", re.IGNORECASE)
_SECRET = re.compile(r"\b(PASSWORD|OAUTH|CREDENTIALS|CONFIG)\b", re.IGNORECASE)


class Misread(ParseError):
    """A syntax error that sqlglot may backtrack over; `parse` turns the last one into BadSyntax."""

    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.at = at


def bad_syntax(sql: str, at: int, message: str) -> BadSyntax:
    """Returns the error with line, column, and the text around the place."""
    at = min(at, len(sql))
    line, column = place_of(sql, at)
    if holds_secret(sql):
        return BadSyntax(f"line {line}, column {column}: {message}")
    around = sql[max(0, at - _SNIPPET) : at] + "▸" + sql[at : at + _SNIPPET]
    return BadSyntax(f"line {line}, column {column}: {message}, near {' '.join(around.split())!r}")


def holds_secret(sql: str) -> bool:
    """Whether a text may hold a password or a credential, so that messages must not quote it."""
    owner = _OWNER.search(sql)
    return owner is not None and _SECRET.search(sql, owner.end()) is not None  # one expression would try from every owner


def place_of(sql: str, at: int) -> tuple[int, int]:
    """Line and column of an offset, from 1."""
    return sql.count("\n", 0, at) + 1, at - sql.rfind("\n", 0, at)
