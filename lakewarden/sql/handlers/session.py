"""Executes SELECT and EXPLAIN, the statements of transaction blocks, and what SET and SHOW are for."""

from __future__ import annotations

from lakewarden.base.commit_metadata import carried
from lakewarden.sql.context import Context
from lakewarden.sql.queries import select
from lakewarden.sql.results import ResultRows, StatementDone, listing
from lakewarden.sql.statements.rows import Explain, Query
from lakewarden.sql.statements.session import (
    Begin,
    Commit,
    ReleaseSavepoint,
    Rollback,
    Savepoint,
    SetFreshness,
    SetMetadata,
    ShowMetadata,
)
from lakewarden.sql.system_listings import TEXT


def query(context: Context, statement: Query) -> ResultRows:
    return select.answered(context, statement)


def explain(context: Context, statement: Explain) -> ResultRows:
    return select.explain(context, statement.query)


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
    """Raises:
    Conflict: others wrote the same rows meanwhile; nothing of the block was written.
    """
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
