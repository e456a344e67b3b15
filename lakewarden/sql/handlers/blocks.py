"""Executes BEGIN, COMMIT, ROLLBACK and the statements of savepoints."""

from __future__ import annotations

from lakewarden.sql.context import Context
from lakewarden.sql.results import StatementDone
from lakewarden.sql.statements.blocks import Begin, Commit, ReleaseSavepoint, Rollback, Savepoint


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
