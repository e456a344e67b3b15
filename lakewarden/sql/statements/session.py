"""Statements of a session: how it reads, and its blocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from sqlglot.tokenizer_core import TokenType

from lakewarden.base.commit_metadata import carried, parsed_metadata
from lakewarden.sql.context import Context
from lakewarden.sql.reader import StatementReader
from lakewarden.sql.results import ResultRows, StatementDone, listing
from lakewarden.sql.rights import READS
from lakewarden.sql.statement import C, Effect, Grammar, ListStatement, SessionStatement, Statement, StatementSpec, registered
from lakewarden.sql.system_listings import TEXT
from lakewarden.tables.freshness import Freshness, check_freshness


@dataclass(frozen=True)
class SetFreshness(SessionStatement):
    freshness: Freshness

    def choose(self, before: C) -> C:
        return replace(before, freshness=self.freshness)


@dataclass(frozen=True)
class SetMetadata(SessionStatement):
    """`metadata` as `metadata_text` returns it; empty where there is to be none."""

    metadata: str

    def choose(self, before: C) -> C:
        return replace(before, metadata=self.metadata)


@dataclass(frozen=True)
class ShowMetadata(ListStatement):
    pass


class BlockStatement(Statement):
    """Begins or ends a transaction block, or a part of one."""

    effect: ClassVar[Effect] = "block"

    def check_complete(self, context: Context) -> None:
        context.block.check_allowed(self.spec.words)


@dataclass(frozen=True)
class Begin(BlockStatement):
    read_only: bool = False


@dataclass(frozen=True)
class Commit(BlockStatement):
    pass


@dataclass(frozen=True)
class Rollback(BlockStatement):
    """Of the whole block, or of what came behind a savepoint."""

    savepoint: str | None = None


@dataclass(frozen=True)
class Savepoint(BlockStatement):
    name: str


@dataclass(frozen=True)
class ReleaseSavepoint(BlockStatement):
    name: str


def read_set_freshness(read: StatementReader) -> Statement:
    """Raises InvalidArgument: there is no such freshness."""
    if not (read.symbol(TokenType.EQ) or read.word("TO")):
        raise read.failure("expected =")
    return SetFreshness(check_freshness(read.name_or_text("a freshness").lower()))


def read_set_metadata(read: StatementReader) -> Statement:
    """Raises InvalidArgument: it is no JSON object, or too large."""
    if not (read.symbol(TokenType.EQ) or read.word("TO")):
        raise read.failure("expected =")
    return SetMetadata("" if read.word("DEFAULT") else parsed_metadata(read.text("a JSON object")))


# Parses the statements of transaction blocks, as PostgreSQL writes them.
_LEVELS = (("READ", "COMMITTED"), ("READ", "UNCOMMITTED"), ("REPEATABLE", "READ"), ("SERIALIZABLE",))
"""PostgreSQL's levels of isolation; a block is READ COMMITTED whatever it names (docs/sql.md)."""


def read_begin(read: StatementReader) -> Statement:
    """Reads what follows BEGIN or START."""
    _noise(read)
    read_only = False
    while not read.over:
        read_only = _read_mode(read) or read_only
        read.symbol(TokenType.COMMA)
    return Begin(read_only)


def _read_mode(read: StatementReader) -> bool:
    """One mode of a transaction. Returns whether it is READ ONLY."""
    if read.word("READ", "ONLY"):
        return True
    if read.word("ISOLATION", "LEVEL"):
        if not any(read.word(*level) for level in _LEVELS):
            raise read.failure("expected a level of isolation, such as READ COMMITTED")
    elif not (read.word("READ", "WRITE") or read.word("NOT", "DEFERRABLE") or read.word("DEFERRABLE")):
        raise read.failure("expected READ ONLY, READ WRITE or ISOLATION LEVEL")
    return False


def read_commit(read: StatementReader) -> Statement:
    """Reads what follows COMMIT or END."""
    _noise(read)
    return Commit()


def read_rollback(read: StatementReader) -> Statement:
    """Reads what follows ROLLBACK or ABORT."""
    _noise(read)
    if not read.word("TO"):
        return Rollback()
    read.word("SAVEPOINT")
    return Rollback(read.name("a savepoint"))


def read_release(read: StatementReader) -> Statement:
    read.word("SAVEPOINT")
    return ReleaseSavepoint(read.name("a savepoint"))


def _noise(read: StatementReader) -> None:
    if not read.word("TRANSACTION"):
        read.word("WORK")


def set_freshness(_: Context, statement: SetFreshness) -> StatementDone:
    """The session itself notes it."""
    return StatementDone(f"freshness is {statement.freshness}")


def set_metadata(_: Context, statement: SetMetadata) -> StatementDone:
    """The session itself notes it."""
    return StatementDone("commit_metadata is set" if statement.metadata else "commit_metadata is empty")


def show_metadata(_context: Context, _statement: ShowMetadata) -> ResultRows:
    return listing({"commit_metadata": TEXT}, [{"commit_metadata": carried()}])


# Executes BEGIN, COMMIT, ROLLBACK and the statements of savepoints.
def begin(context: Context, statement: Begin) -> StatementDone:
    context.block.begin(read_only=statement.read_only)
    return StatementDone("BEGIN")


def commit(context: Context, _: Commit) -> StatementDone:
    """Raises Conflict: others wrote the same rows meanwhile; nothing of the block was written."""
    return StatementDone(context.block.commit())


def rollback(context: Context, statement: Rollback) -> StatementDone:
    if statement.savepoint is None:
        return StatementDone(context.block.roll_back())
    context.block.roll_back_to(statement.savepoint)
    return StatementDone("ROLLBACK")


def savepoint(context: Context, statement: Savepoint) -> StatementDone:
    context.block.save(statement.name)
    return StatementDone("SAVEPOINT")


def release(context: Context, statement: ReleaseSavepoint) -> StatementDone:
    context.block.release(statement.name)
    return StatementDone("RELEASE")


ROWS = registered(
    StatementSpec(
        "BEGIN [READ ONLY]",
        "begins a block: what it writes is kept, and written by COMMIT as a whole",
        READS,
        begin,
    ),
    StatementSpec("COMMIT", "writes what the block kept, all of it or nothing, and ends the block", READS, commit),
    StatementSpec(
        "ROLLBACK [TO SAVEPOINT s]",
        "drops what the block kept, and ends it; or what it kept behind the savepoint",
        READS,
        rollback,
    ),
    StatementSpec("SAVEPOINT s", "marks a place in the block", READS, savepoint),
    StatementSpec("RELEASE SAVEPOINT s", "forgets such a place", READS, release),
    StatementSpec(
        "SET freshness = 'strong', 'eventual' or 'oltp_only'",
        "chooses the rows that the session's queries see: all, those in Delta, or those in the write log alone",
        READS,
        set_freshness,
        begins="SET FRESHNESS",
    ),
    StatementSpec(
        "SET commit_metadata = '{…}', RESET commit_metadata",
        "chooses the JSON object that the commits of what the session writes carry",
        READS,
        set_metadata,
        begins="SET COMMIT_METADATA",
    ),
    StatementSpec(
        "SHOW commit_metadata",
        "shows that object; empty where there is none",
        READS,
        show_metadata,
        begins="SHOW COMMIT_METADATA",
    ),
)

GRAMMARS: Mapping[str, Grammar] = {
    "BEGIN": read_begin,
    "START TRANSACTION": read_begin,
    "COMMIT": read_commit,
    "END": read_commit,
    "ROLLBACK": read_rollback,
    "ABORT": read_rollback,
    "SAVEPOINT": lambda read: Savepoint(read.name("a savepoint")),
    "RELEASE": read_release,
    "SET FRESHNESS": read_set_freshness,
    "SET COMMIT_METADATA": read_set_metadata,
    "SET SESSION COMMIT_METADATA": read_set_metadata,
    "RESET COMMIT_METADATA": lambda _: SetMetadata(""),
    "SHOW COMMIT_METADATA": lambda _: ShowMetadata(),
}
