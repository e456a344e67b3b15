"""Writes a query's tree as text for DuckDB."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.errors import ErrorLevel, SqlglotError

from lakewarden.errors import BadSyntax, Unsupported
from lakewarden.sql.grammar.dialect import Lakewarden
from lakewarden.sql.reader import STUMBLES
from lakewarden.sql.text_bounds import deeper

_DIALECT = Lakewarden()


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
