"""The write log of one table: the interface through which everything outside this package reaches it.

`log.logs` makes them. `lakewarden/log/objects/` is the implementation: a log of immutable objects that any number of processes
share. Another one has to pass the same tests (tests/log).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

import pyarrow as pa

from lakewarden.catalog.model import TableSchema
from lakewarden.clock import Clock, NewId
from lakewarden.faults import Reach, no_faults
from lakewarden.log.chunk import RowRange
from lakewarden.log.faults import LogFaults
from lakewarden.log.receipt import Receipt
from lakewarden.log.record import LogBatch
from lakewarden.log.touched import Touched
from lakewarden.log.view import LogView, PendingRows, Trail, UserSigns
from lakewarden.settings import LogSettings

Mark = Callable[[str], str]
"""The keyed hash by which a log names a user who is being erased."""


@dataclass(frozen=True)
class LogTerms:
    """What a warehouse gives its logs."""

    settings: LogSettings
    clock: Clock
    new_id: NewId
    mark: Mark
    format: int
    """Of the warehouse, and so of the segments that are written."""
    floor: Callable[[], int | None] = lambda: None
    """The last position that the table's storage knows to be settled; None where that is unknown."""
    still_there: Callable[[], None] = lambda: None
    """Raises `NotFound` if the table was dropped."""


class LogReader(Protocol):
    """Reads a log. Safe for threads. A task makes its own, from where the state is and the log's id."""

    @property
    def log_id(self) -> str: ...

    @property
    def home(self) -> str:
        """The key, within the warehouse's state, below which all of the log is."""
        ...

    def anew(self) -> LogReader:
        """The same, remembering nothing that was read before."""
        ...

    def view(self) -> LogView:
        """The log now. An unknown one is empty.

        Raises:
            Corrupt: something of it is lost or cannot be read.
            Conflict: it was settled again and again meanwhile.
        """
        ...

    def make_durable(self, view: LogView) -> None:
        """What the view shows is durable when this returns: for who is about to commit elsewhere how far it went.

        Raises:
            NotDurable: the disk reported an error.
        """
        ...

    def rows(self, pending: PendingRows, schemas: tuple[TableSchema, ...]) -> pa.Table:
        """A user's pending rows: the columns of the newest schema, `_seq`, `_op`; ascending by `_seq`.

        Raises:
            Missing: they were settled and cleaned away meanwhile; look at the log again.
            Conflict: they are of a schema version that is not among `schemas`.
        """
        ...

    def chunk(self, where: RowRange) -> memoryview:
        """A chunk's rows, as they were encoded (`record.decode`). Raises `Missing` when it was cleaned away."""
        ...

    def trail(self, after: int) -> Trail:
        """The log and its history, as far as they hold rows beyond that `_seq`. Raises as `view`."""
        ...

    def signs(self, mark: str) -> UserSigns:
        """What the log says now of the user with this keyed hash."""
        ...

    def faults(self) -> LogFaults:
        """Looks at all of the log, past what was read before.

        Raises:
            Corrupt: it cannot be told what is lost.
            Conflict: it was settled again and again meanwhile.
        """
        ...


class TableLog(LogReader, Protocol):
    """A log that is written to: one for each log and open warehouse."""

    def append(self, batch: LogBatch, after: int | None = None, keys: Touched | None = None) -> Receipt:
        """Returns once the rows are durable and will be read by every strong read that starts from now on. Calls that come
        together share a segment.

        `after` makes it conditional: `position_of(view.end)` of the view that was read, behind which the rows must
        come directly (what reads before it writes would otherwise overwrite a write that it has not seen). Appends of this
        very object may come between that touch nothing of it: no row of its users, or where `keys` says what was read and
        is written, no row of these keys.

        Raises:
            Conflict: another write came after `after`; nothing was written.
            PartlyAppended: of several segments, the first ones were appended.
            BeingErased: of these users nothing is taken now.
            NotFound: the table was dropped.
            Corrupt: rows of the log are lost, or it ends below the known floor; nothing was written.
            StorageUnavailable: the store failed; the message says so if the rows may have been taken all the same.
        """
        ...

    def settle(self, view: LogView, settled: Mapping[str, int], *, keep: bool = True, reach: Reach = no_faults) -> None:
        """Notes that each user's rows up to a `_seq` are durably in the user's table, then cleans up.

        `view` is the one that was flushed; a newer or older one does no harm. Without anything settled this is a cleanup.

        Args:
            keep: the rows stay readable for subscribers for `retention_seconds`.

        Raises:
            Conflict: others settled the same log again and again meanwhile. Nothing is lost: settle later.
            StorageUnavailable: so too.
        """
        ...

    def forget_expired(self, view: LogView) -> None:
        """Gives up what was kept for subscribers for long enough. Raises as `settle`."""
        ...

    def gone_since(self, view: LogView, users: Collection[str]) -> set[str]:
        """Those of the view's pending users who were closed or erased since it was read; all of them, if the table was dropped.

        For who is about to keep a user's name somewhere: keep it, ask, and take it back. Whoever erases afterwards finds it.
        """
        ...

    def close_user(self, mark: str) -> None:
        """From now on appends for the user with this keyed hash raise `BeingErased`. May be repeated.

        Raises:
            Conflict, StorageUnavailable: try again.
        """
        ...

    def leave_out(self, user: str, now: datetime, *, found: Callable[[PendingRows], None] = ..., reach: Reach = no_faults) -> int:
        """Removes all rows of a closed user from the log and its history, and the user's name; returns the last `_seq` that
        is settled thereby.

        `found` is given the rows before they go. May be repeated.

        Raises:
            Conflict, StorageUnavailable: others settled the log again and again, or the store failed; try again.
        """
        ...

    def open_user(self, mark: str) -> None:
        """Takes the user's writes again; their `_seq` is beyond every old one. May be repeated."""
        ...

    def note_rewound(self, marks: Sequence[str]) -> None:
        """Notes that the rows of users (by keyed hash) were set back, which no row of the log says: it takes a position.

        Raises:
            NotFound: the table was dropped.
            Conflict, StorageUnavailable: try again.
        """
        ...

    def give_up(self, faults: LogFaults) -> None:
        """Goes on without what is lost. May be repeated.

        Raises:
            Conflict, StorageUnavailable: try again.
        """
        ...

    def jump(self, position: int, settled: Mapping[str, int]) -> None:
        """Goes on behind a position, and carries the rows that are open: for a state that was restored from a backup.

        Every subscription ends. Without faults; give those up first. May be repeated.

        Args:
            position: the highest that is known to have been taken: of cuts, floors and watermarks.
            settled: up to which `_seq` each user's rows are in the user's table; none of them where a user is absent.

        Raises:
            InvalidArgument: there is no position behind that one.
            Corrupt: the log has faults.
            Conflict, StorageUnavailable: try again.
        """
        ...

    def drop(self) -> None:
        """Takes no more appends, and removes its rows. May be repeated, which also removes what late writers left.

        Raises:
            Conflict: flushes settled the log again and again meanwhile.
            StorageUnavailable: the store failed; try again.
        """
        ...
