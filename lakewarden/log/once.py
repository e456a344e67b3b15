"""The identity of a batch that is appended once, whoever repeats it."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

_DIGITS = 24


@dataclass(frozen=True)
class Once:
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
