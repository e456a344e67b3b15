"""Where the rows of messages go, each batch once by the offsets that it covers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from lakewarden.log.once import Resume
from lakewarden.log.once import WriterBatch as LogOnce
from lakewarden.log.record import OP, USER, LogBatch
from lakewarden.tables.client import TableClient
from lakewarden.tables.direct.value import WriteIdentity


@dataclass(frozen=True)
class Span:
    """The offsets of a batch: from `first`, below `next_offset`."""

    first: int
    next_offset: int


class TopicLanding(Protocol):
    """Takes the batches of one partition of a topic."""

    def taken_upto(self) -> int | None:
        """Returns the offset behind the last batch; None before the first.

        Raises:
            FailedPrecondition: it is uncertain since a repair.
        """
        ...

    def resume(self, how: Resume, end: int) -> None:
        """Says from where to go on where a repair left that uncertain. `end`: behind the last message that there is now."""
        ...

    def take(self, batch: LogBatch, span: Span) -> bool:
        """Takes a batch, unless others were taken since `span.first`; returns whether it did.

        Raises:
            BeingErased: rows are of a user who is being erased; nothing was taken.
            Conflict, StorageUnavailable: try again; nothing was taken, or all of it.
        """
        ...


@dataclass(frozen=True)
class LogLanding:
    """Through the write log, which keeps the offsets beside the rows."""

    client: TableClient
    app: str

    def taken_upto(self) -> int | None:
        return self.client.log.published(self.app)

    def resume(self, how: Resume, end: int) -> None:
        self.client.log.resume(self.app, how, end)

    def take(self, batch: LogBatch, span: Span) -> bool:
        return self.client.reader.appending.append_once(batch, LogOnce(self.app, span.next_offset, span.first)) is not None


@dataclass(frozen=True)
class DirectLanding:
    """Of a table without a primary key: one Delta commit, which carries the offsets."""

    client: TableClient
    app: str

    def taken_upto(self) -> int | None:
        return self.client.direct.last_once(self.app)

    def resume(self, how: Resume, end: int) -> None:
        self.client.direct.resume(self.app, how, end)

    def take(self, batch: LogBatch, span: Span) -> bool:
        rows = batch.rows.drop_columns([OP, USER])
        return not self.client.direct.append([rows], once=WriteIdentity(self.app, span.next_offset, span.first)).repeated
