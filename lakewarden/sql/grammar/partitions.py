"""Parses the values that name a partition."""

from __future__ import annotations

from sqlglot.tokenizer_core import TokenType

from lakewarden.sql.reader import StatementReader
from lakewarden.sql.statements.dynamic import PartitionSpec


def partition_spec(read: StatementReader) -> PartitionSpec:
    """Reads `(column = value, …)`, which follows PARTITION."""
    return tuple(read.listed(lambda: _value(read)))


def _value(read: StatementReader) -> tuple[str, str | None]:
    name = read.column("a partition column")
    if not read.symbol(TokenType.EQ):
        raise read.failure(f"expected = after {name}")
    if read.word("NULL"):
        return name, None
    return name, read.text("a value") if read.at_text else read.value_of(name)
