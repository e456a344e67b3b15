"""Executes BEGIN, COMMIT, ROLLBACK and the statements of savepoints."""

from __future__ import annotations

from lakewarden.sql.context import Context
from lakewarden.sql.results import Done
from lakewarden.sql.statements.blocks import Begin, Commit, ReleaseSavepoint, Rollback, Savepoint


def begin(context: Context, statement: Begin) -> Done:
    context.block.begin(read_only=statement.read_only)
    return Done("BEGIN")


def commit(context: Context, _: Commit) -> Done:
    """Raises:
    Conflict: others wrote the same rows meanwhile; nothing of the block was written.
    """
    return Done(context.block.commit())


def rollback(context: Context, statement: Rollback) -> Done:
    if statement.savepoint is None:
        return Done(context.block.roll_back())
    context.block.roll_back_to(statement.savepoint)
    return Done("ROLLBACK")


def savepoint(context: Context, statement: Savepoint) -> Done:
    context.block.save(statement.name)
    return Done("SAVEPOINT")


def release(context: Context, statement: ReleaseSavepoint) -> Done:
    context.block.release(statement.name)
    return Done("RELEASE")
