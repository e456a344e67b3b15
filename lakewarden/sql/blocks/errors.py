"""What is refused for the sake of a block."""

from __future__ import annotations

from lakewarden.errors import FailedPrecondition


class FailedBlock(FailedPrecondition):
    """An earlier statement of the block failed: nothing runs until ROLLBACK."""


class IdleBlock(FailedPrecondition):
    """The block waited for too long, and its rows were dropped."""


class NoBlock(FailedPrecondition):
    """There is no block."""


class NoSavepoint(FailedPrecondition):
    """The block has no savepoint of that name."""


class ReadOnlyBlock(FailedPrecondition):
    """The block is READ ONLY, and the statement may change something."""
