"""Parses the statements of transaction blocks, as PostgreSQL writes them."""

from __future__ import annotations

from sqlglot.tokenizer_core import TokenType

from lakewarden.sql.reader import StatementReader
from lakewarden.sql.statements.base import Statement
from lakewarden.sql.statements.blocks import Begin, Commit, ReleaseSavepoint, Rollback, Savepoint

_LEVELS = (("READ", "COMMITTED"), ("READ", "UNCOMMITTED"), ("REPEATABLE", "READ"), ("SERIALIZABLE",))
"""PostgreSQL's levels of isolation; a block is READ COMMITTED whatever it names (docs/sql.md)."""


def begin(read: StatementReader) -> Statement:
    """Reads what follows BEGIN or START."""
    _noise(read)
    read_only = False
    while not read.over:
        read_only = _mode(read) or read_only
        read.symbol(TokenType.COMMA)
    return Begin(read_only)


def _mode(read: StatementReader) -> bool:
    """One mode of a transaction. Returns whether it is READ ONLY."""
    if read.word("READ", "ONLY"):
        return True
    if read.word("ISOLATION", "LEVEL"):
        if not any(read.word(*level) for level in _LEVELS):
            raise read.failure("expected a level of isolation, such as READ COMMITTED")
    elif not (read.word("READ", "WRITE") or read.word("NOT", "DEFERRABLE") or read.word("DEFERRABLE")):
        raise read.failure("expected READ ONLY, READ WRITE or ISOLATION LEVEL")
    return False


def commit(read: StatementReader) -> Statement:
    """Reads what follows COMMIT or END."""
    _noise(read)
    return Commit()


def rollback(read: StatementReader) -> Statement:
    """Reads what follows ROLLBACK or ABORT."""
    _noise(read)
    if not read.word("TO"):
        return Rollback()
    read.word("SAVEPOINT")
    return Rollback(read.name("a savepoint"))


def savepoint(read: StatementReader) -> Statement:
    return Savepoint(read.name("a savepoint"))


def release(read: StatementReader) -> Statement:
    read.word("SAVEPOINT")
    return ReleaseSavepoint(read.name("a savepoint"))


def _noise(read: StatementReader) -> None:
    if not read.word("TRANSACTION"):
        read.word("WORK")
