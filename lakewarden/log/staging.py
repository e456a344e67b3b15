"""Values of a batch that several processes stage and one publishes. Picklable."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple


class Staging(NamedTuple):
    """A batch that was begun: the id under which its rows are staged, and when that was."""

    put_id: str
    stored_at: int
    """Microseconds since the epoch, by the clock of the process that began it."""
    since: int
    """The last position that was taken then: an erasure since then removed the rows of its user."""
    closed: tuple[str, ...] = ()
    """By keyed hash, who was being erased then: what is staged of theirs may be removed before it is published."""


class StagedPiece(NamedTuple):
    """Rows of one user in a staged object."""

    schema_version: int
    user: str
    object: int
    """The number of the object."""
    rows: int
    offset: int
    length: int


Pieces = Sequence[StagedPiece] | Callable[[int], Sequence[StagedPiece]]
"""What a batch consists of; or what makes it, given the last position of the log: called again where another write came first.
"""
