"""The dialects of texts: DuckDB's words, and Lakewarden's reader."""

from __future__ import annotations

from typing import ClassVar

from sqlglot.dialects.duckdb import DuckDB
from sqlglot.tokenizer_core import TokenType

from lakewarden.sql.reader import StatementReader


class Lakewarden(DuckDB):
    """DuckDB's dialect, where no keyword makes sqlglot skip the rest of the statement."""

    class Tokenizer(DuckDB.Tokenizer):
        COMMANDS: ClassVar[set[TokenType]] = set()
        HEX_STRINGS: ClassVar[list[str | tuple[str, str]]] = [("x'", "'"), ("X'", "'")]
        # `?::INT` is a parameter and a cast; sqlglot has operators of other dialects that begin with ?.
        KEYWORDS: ClassVar[dict[str, TokenType]] = {
            word: kind for word, kind in DuckDB.Tokenizer.KEYWORDS.items() if not word.startswith("?")
        }

    Parser = StatementReader


class NumberedDialect(Lakewarden):
    """The dialect of a text with parameters. It has no texts in dollars: sqlglot would read `$1,$2` as the beginning of one."""

    class Tokenizer(Lakewarden.Tokenizer):
        HEREDOC_STRINGS: ClassVar[list[str | tuple[str, str]]] = []
        SINGLE_TOKENS: ClassVar[dict[str, TokenType]] = {**DuckDB.Tokenizer.SINGLE_TOKENS, "$": TokenType.PARAMETER}
