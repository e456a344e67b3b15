"""The reading of one table's log: the interface through which everything outside this package does it (`table_log`)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

import pyarrow as pa

from lakewarden.catalog.model import TableSchema
from lakewarden.log.chunk import RowRange
from lakewarden.log.view import LogFaults, LogView, PendingRows, Trail, UserSigns


class LogReader(Protocol):
    """Reads a log. Safe for threads. A task creates its own, from the place of the state and the log's id."""

    @property
    def log_id(self) -> str: ...

    @property
    def home(self) -> str:
        """The key in the warehouse's state below which all of the log is."""
        ...

    # For who met `Missing`: what is cached may be of objects that were cleaned up, or whose names came again.
    def anew(self) -> LogReader:
        """Returns the same reader without anything read before."""
        ...

    def view(self, users: Collection[str] | None = None) -> LogView:
        """Returns the log as it is now. An unknown log is empty.

        Args:
            users: those who will be looked up, all by default. To look up others may raise `Missing`.

        Raises:
            Corrupt: a part of it is lost or cannot be read.
            Conflict: it was settled again and again meanwhile.
        """
        ...

    def make_durable(self, view: LogView) -> None:
        """Makes what the view shows durable, for a caller that will record elsewhere how far it read.

        Raises:
            NotDurable: the disk reported an error.
        """
        ...

    def rows(self, pending: PendingRows, schemas: tuple[TableSchema, ...], *, for_flush: bool = False) -> pa.Table:
        """Returns a user's pending rows: the columns of the newest schema, `_seq`, `_op`; ascending by `_seq`.

        Args:
            for_flush: keeps what their writers attached, for `log.chunk.taken`; and the rows at hand, for `TableLog.settle`.

        Raises:
            Missing: they were settled and cleaned up meanwhile; read the log again.
            Conflict: they have a schema version that is not among `schemas`.
        """
        ...

    def metadata(self, pending: PendingRows) -> list[str]:
        """Returns what the writers of these rows attached, in their order, without a look at chunks that have none.

        Raises `Missing` when they were cleaned up.
        """
        ...

    def chunk(self, where: RowRange) -> memoryview:
        """Returns a chunk's rows, still encoded (`record.decode`). Raises `Missing` when it was cleaned up."""
        ...

    def chunks(self, where: Sequence[RowRange]) -> list[memoryview]:
        """Returns the same of many chunks, in their order. Neighbours in an object are read at once."""
        ...

    def trail(self, after: int, users: Collection[str] | None = None) -> Trail:
        """Returns the log and its history, where they hold rows beyond that `_seq`.

        Args:
            users: those who will be looked up, each then without a search; all by default. Raises as `view`.
        """
        ...

    def signs(self, mark: str) -> UserSigns:
        """Returns what the log now says of the user with this keyed hash."""
        ...

    def faults(self) -> LogFaults:
        """Reads all of the log again, and returns what is lost.

        Raises:
            Corrupt: it cannot be determined what is lost.
            Conflict: it was settled again and again meanwhile.
        """
        ...
