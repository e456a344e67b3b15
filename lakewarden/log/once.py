"""Who appends, and what is appended once: the identity of a batch, the fence of streaming writers, and staged batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from hashlib import sha256
from typing import Literal, NamedTuple, cast, get_args

from lakewarden.base.threads import within
from lakewarden.errors import FailedPrecondition, InvalidArgument, LostPlace

_DIGITS = 24

UNTAKEN = -1
"""As the number that is kept: no batch of the writer counts."""
_UNKNOWN = -2

ANY = "*"
"""In place of a writer: all that are not kept. What they wrote may be lost with their identities."""

Resume = Literal["repeat", "skip"]
"""How a writer goes on whose last batch is uncertain: it writes again what may be there, or leaves out what may be missing."""


def check_resume(text: str) -> Resume:
    """Raises InvalidArgument: it is something else."""
    if text not in get_args(Resume):
        raise InvalidArgument(f"resume {text!r}: it is {' or '.join(get_args(Resume))}")
    return cast("Resume", text)


@dataclass(frozen=True)
class LastBatch:
    """The last batch of a writer that counts; `number` is None where there is none, or where it is not known."""

    number: int | None
    certain: bool = True
    """Whether all of its rows, and of the batches before it, are where they were written."""

    @classmethod
    def of(cls, kept: int | None) -> LastBatch:
        """`kept`: the number that is kept of the writer; None without one."""
        if kept is None or kept == UNTAKEN:
            return cls(None)
        if kept > UNTAKEN:
            return cls(kept)
        # One number holds both: from -3 downwards an uncertain batch, -2 an uncertain one without a number, -1 none.
        return cls(None if kept == _UNKNOWN else _UNKNOWN - 1 - kept, certain=False)

    @property
    def kept(self) -> int:
        """The number by which it is kept."""
        if self.certain:
            return UNTAKEN if self.number is None else self.number
        return _UNKNOWN if self.number is None else _UNKNOWN - 1 - self.number

    def stands_for(self, floor: int, writer: str, table: object) -> bool:
        """Whether a batch with a number above `floor` counts.

        Raises:
            FailedPrecondition: that is uncertain.
        """
        if not self.certain:
            raise stopped(writer, table, self.number)
        # A later batch stands for this one too, since a writer's numbers ascend.
        return self.number is not None and self.number > floor


def stopped(writer: str, table: object, number: int | None) -> FailedPrecondition:
    """The error of a writer whose last batch is uncertain."""
    last = "" if number is None else f", up to {number},"
    return FailedPrecondition(
        f"a repair of {table} did not bring back everything that {writer} wrote{last} so its writes may be missing or repeat: go"
        " on with resume 'repeat', which writes again what may be there, or 'skip', which leaves out what may be missing"
    )


@dataclass(frozen=True)
class WriterBatch:
    """A batch of this writer with this number, or a later one, stands for it. Numbers ascend; the log keeps the last one, and the
    Delta table that of direct writes."""

    writer: str
    batch: int
    above: int | None = None
    """With it, each number above stands for it: those of attempts at the same batch."""
    resumes: bool = False
    """Of a direct write: whether it says from where a writer goes on whose last batch is uncertain; otherwise that stops it."""

    @property
    def floor(self) -> int:
        """The last number that does not stand for it."""
        return self.batch - 1 if self.above is None else self.above

    @property
    def key(self) -> str:
        """The writer in the log."""
        return writer_key(self.writer)


def writer_key(writer: str) -> str:
    """A digest of fixed length in place of the name, which may be long and may name a user."""
    return sha256(writer.encode()).hexdigest()[:_DIGITS]


# The fence of a table with one streaming writer: each stream that takes the place over raises it, and writes of earlier ones
# are refused where they would be appended or committed (tables/dynamic).
#
# What a thread writes on behalf of a stream carries the token of its lease, as a keyed write carries its key (`write_key`).

_TOKEN: ContextVar[int | None] = ContextVar("stream_token", default=None)


def fenced(token: int) -> AbstractContextManager[None]:
    """What this thread writes in the block is refused with `LostPlace` once the table's fence is higher than the token."""
    return within(_TOKEN, token)


carried_token = _TOKEN.get
"""The token that a write of this thread carries; None where it is not a stream's."""


def check_fence(fence: int, token: int | None) -> None:
    """Raises LostPlace: the write carries a token below the fence."""
    # Writes that are no stream's carry no token, and pass (docs/decisions/0122-a-stream-keeps-its-place-while-it-lives.md).
    if token is not None and token < fence:
        raise LostPlace("another stream has taken over the place of the table's streaming writer: nothing was written")


# Values of a batch that several processes stage and one publishes. Picklable.
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
