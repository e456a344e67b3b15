"""The identity of a batch that is appended once, whoever repeats it, and what is known of a writer's last one.

The log and the Delta tables keep of each writer one number. A repair that cannot bring back all rows of a writer's batches keeps
it as uncertain: a number below zero (docs/decisions/0100-identities-behind-a-repair.md). The writer stops until it is resumed.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Literal, cast, get_args

from lakewarden.errors import FailedPrecondition, InvalidArgument

_DIGITS = 24

UNTAKEN = -1
"""As the number that is kept: no batch of the writer counts."""
_UNKNOWN = -2

ANY = "*"
"""In place of a writer: all that are not kept. What they wrote may be lost with their identities."""

Resume = Literal["repeat", "skip"]
"""How a writer goes on whose last batch is uncertain: it writes again what may be there, or leaves out what may be missing."""


def check_resume(text: str) -> Resume:
    """Raises:
    InvalidArgument: it is something else.
    """
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
    """A batch of this writer with this number, or a later one, stands for it. Numbers ascend; the log keeps the last one."""

    writer: str
    batch: int
    above: int | None = None
    """With it, each number above stands for it: those of attempts at the same batch."""

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
