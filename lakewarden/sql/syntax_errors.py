"""Errors of syntax, with their place in the text, which is quoted unless it may hold a secret."""

from __future__ import annotations

import re

from sqlglot.errors import ParseError

from lakewarden.errors import BadSyntax

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
