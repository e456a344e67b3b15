"""The write log of one table: the interface through which everything outside this package reaches it.

`log.logs` creates them. `lakewarden/log/objects/` is the implementation: a log of immutable objects that any number of processes
share. Another implementation has to pass the same tests (tests/log).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

import pyarrow as pa

from lakewarden.base.clock import Clock, NewId
from lakewarden.base.faults import Reach, no_faults
from lakewarden.base.setting_sections import LogSettings
from lakewarden.base.write_key import Trace
from lakewarden.catalog.model import TableSchema
from lakewarden.log.chunk import RowRange
from lakewarden.log.log_reader import LogReader
from lakewarden.log.once import LastBatch, Pieces, Resume, StagedPiece, Staging, WriterBatch
from lakewarden.log.position import Receipt
from lakewarden.log.record import Batch, LogBatch
from lakewarden.log.touches import Touched
from lakewarden.log.view import LogFaults, LogView, PendingRows

Mark = Callable[[str], str]
"""The keyed hash by which a log names a user who is being erased."""

HELD: Final = "held/"
"""How the id of a direct write begins for which those wait that read what it is about to change."""

Behind = Callable[[], int]
"""Looks at a log, and returns the position that it saw as the last: `position_of(view.end)`."""


@dataclass(frozen=True)
class LogTerms:
    """The inputs that a warehouse passes to its logs."""

    settings: LogSettings
    clock: Clock
    new_id: NewId
    mark: Mark
    format: int
    """The format of the warehouse, and so of new segments."""
    floor: Callable[[], int | None] = lambda: None
    """Returns the last position that the table's storage knows to be settled; None when unknown."""
    still_there: Callable[[], None] = lambda: None
    """Checks that the table exists. Raises `NotFound` if it was dropped."""


class Tracing(Protocol):
    """Finds what a write left whose answer was lost."""

    def trace(self, key: str) -> Trace:
        """What the log shows of a write that carried this key (`write_key`). Raises as `LogReader.view`."""
        ...


class Appending(Protocol):
    """Takes rows into a log."""

    def ready(self, view: LogView) -> None:
        """Waits until what is read next, behind the view, is what an append directly behind the view follows.

        Raises:
            Conflict: that took too long.
        """
        ...

    def append(self, batch: Batch, after: int | None = None, keys: Touched | None = None) -> Receipt:
        """Appends rows. Returns once they are durable and every strong read that starts later will read them. Calls that come
        together share a segment. One user's rows become visible together, however many; of many users, those of a segment do.

        `after` makes it conditional: `position_of(view.end)` of the view that was read, after which the rows must
        come directly (a caller that reads before it writes could otherwise overwrite a write that it has not seen). Appends of
        this object may come between if they touch nothing of it: no row of its users, or, where `keys` says what was read and
        is written, no row with these keys.

        Raises:
            Conflict: another write came after `after`; nothing was written.
            SchemaChanged: the table was altered since the rows were made; nothing was written.
            LostPlace: they are a stream's, and another one took over; nothing was written.
            InvalidArgument: more rows than one position can number; nothing was written.
            PartlyAppended: rows of many users became several segments, and the first ones were appended.
            BeingErased: rows of these users are not accepted now.
            NotFound: the table was dropped.
            Corrupt: rows of the log are lost, or it ends below the known floor; nothing was written.
            StorageUnavailable: the store failed; the message says so if the rows may have been appended anyway.
        """
        ...

    def append_whole(self, batches: Iterable[LogBatch], after: int | Behind | None = None) -> Receipt:
        """Appends one user's rows as they come, however many, in bounded memory. All of them become visible together.

        Args:
            after: as in `append`; or what finds it, once all rows are durable but not visible, and again where another write
                came first.

        Raises:
            Conflict: another write came after `after`, or each time that it was found; nothing was written.
            InvalidArgument: rows of several users, or more than one position can number; nothing was written.
            LakewardenError: what `batches` or `after` raises, and then nothing was written; or as `append`.
        """
        ...

    def publish(self, staging: Staging, pieces: Pieces, once: WriterBatch | None = None) -> Receipt | None:
        """Appends the rows of a batch at one position, in the order of the pieces. What was staged besides them is removed.

        Where `pieces` makes them, nothing of others came between the position that it was given, and the batch.

        Returns:
            None when the log has the batch already: it was published before, or `once` says so. Nothing was written then.

        Raises:
            BeingErased: a user of the batch is being erased, or was since it was begun; nothing was written.
            FailedPrecondition: it is uncertain since a repair whether the batch was published; nothing was written.
            SchemaChanged: the columns were changed since the rows were staged; nothing was written.
            LostPlace: as `append`.
            Conflict: others kept appending; nothing was written.
            StorageUnavailable: the batch is a day old, and nothing was written; or the store failed: the message says so if
                the rows may have been appended anyway, and to publish the same again then does no harm.
            InvalidArgument, NotFound, Corrupt: as `append`.
        """
        ...

    def append_once(self, batch: LogBatch, once: WriterBatch) -> Receipt | None:
        """Stages and publishes a batch, which may be without rows. As `publish`."""
        ...


class TableLog(LogReader, Tracing, Appending, Protocol):
    """A log for writing: one object per log and open warehouse."""

    def announced(self) -> AbstractContextManager[None]:
        """Announces, while it is open, that this thread will append soon, after a short look at least: a segment that would
        be put before waits for it, for `gather_seconds` at most. The wait ends when the thread appends, or leaves the context.
        """
        ...

    def turn(self, user: str | None) -> AbstractContextManager[None]:
        """Lets one thread after the other read all rows of a scope and append behind what it read: at the same time, all but one
        would lose, and read again. It may be entered again by the thread that has it.

        Args:
            user: whose scope; None for the rows of a SHARED table, or of many users.
        """
        ...

    def begin_batch(self) -> Staging:
        """Begins a batch of rows of any users, which any process may stage. All of it becomes visible together, or nothing.

        It has to be published within a day. What is never published is removed two days later.

        Raises:
            Unsupported: the warehouse is of an older format.
        """
        ...

    def stage(self, staging: Staging, batch: LogBatch) -> tuple[StagedPiece, ...]:
        """Makes rows of a batch durable, in any process. Nothing shows them before the batch is published.

        Raises:
            StorageUnavailable: the store failed; stage them again.
        """
        ...

    def staged_rows(
        self, staging: Staging, pieces: Iterable[StagedPiece], schemas: tuple[TableSchema, ...]
    ) -> Iterator[pa.Table]:
        """Reads what was staged, piece by piece, which goes elsewhere than to the log: the newest schema's columns, and `_op`.

        Raises:
            Missing: it was abandoned.
        """
        ...

    def abandon(self, staging: Staging) -> None:
        """Removes what was staged of a batch, unless it was published. Idempotent."""
        ...

    def published(self, writer: str) -> int | None:
        """Returns the number of the last batch that was published with this writer's identity; None without one.

        Raises:
            FailedPrecondition: it is uncertain since a repair.
        """
        ...

    def last_batches(self) -> dict[str, LastBatch]:
        """The last batch of each writer with an identity that is known, by `writer_key`."""
        ...

    def resume(self, writer: str, how: Resume, end: int | None = None) -> None:
        """Says from where a writer goes on whose last batch is uncertain; changes nothing of others.

        Args:
            end: the number up to which `skip` leaves out where the last one is not known.

        Raises:
            Conflict, StorageUnavailable: try again.
        """
        ...

    def settle(self, view: LogView, settled: Mapping[str, int], *, keep: bool | float = True, reach: Reach = no_faults) -> None:
        """Notes that each user's rows up to a `_seq` are durably in the user's table, then cleans up.

        `view` is the one that was flushed; a newer or older one does no harm. With nothing settled, this only cleans up.

        Args:
            keep: the rows stay readable for subscribers for `retention_seconds`, or for so many seconds where it is a number.

        Raises:
            Conflict: others settled the same log again and again meanwhile. Nothing is lost: settle later.
            StorageUnavailable: the store failed. Nothing is lost: settle later.
        """
        ...

    def forget_expired(self, view: LogView, kept_seconds: float | None = None) -> None:
        """Removes what has been kept for subscribers for long enough, and what dead writers left. Raises as `settle`.

        Args:
            kept_seconds: how long that is, instead of `retention_seconds`.
        """
        ...

    def gone_since(self, view: LogView, users: Collection[str]) -> set[str]:
        """Returns the view's pending users who were closed or erased since it was read; all of them if the table was dropped.

        Call this after storing a user's name, and remove the names of these users again. A later erasure finds the others.
        """
        ...

    def require_columns(self, version: int) -> None:
        """From now on appends of rows of an older schema version raise `SchemaChanged`. Idempotent.

        Raises:
            Conflict, StorageUnavailable: try again.
        """
        ...

    def raise_fence(self, token: int, *, replaces: bool) -> None:
        """From now on what carries a lower token (`log.once`) is refused with `LostPlace`. Idempotent.

        Args:
            replaces: a stream may still be at work under a lower token, and have looked at the log: it is refused, too.

        Raises:
            Conflict, StorageUnavailable: try again.
        """
        ...

    def fence(self) -> int:
        """Returns the highest token by which it was raised; 0 without one. Raises as `raise_fence`."""
        ...

    def close_user(self, mark: str) -> int:
        """From now on appends for the user with this keyed hash raise `BeingErased`. Idempotent.

        Returns the last `_seq` that rows of the user can have, also those of writers who have not looked yet.

        Raises:
            Conflict, StorageUnavailable: try again.
        """
        ...

    def leave_out(self, user: str, now: datetime, *, found: Callable[[PendingRows], None] = ..., reach: Reach = no_faults) -> int:
        """Removes a closed user's rows and name from the log and its history. Returns the last `_seq` that
        is then settled.

        Calls `found` with the rows before they are removed. Idempotent.

        Raises:
            Conflict, StorageUnavailable: others settled the log again and again, or the store failed; try again.
        """
        ...

    def open_user(self, mark: str) -> None:
        """Accepts the user's writes again; their `_seq` is higher than every old one. Idempotent."""
        ...

    def take_position(self) -> int:
        """Takes a position for a write that goes past the log: no row of the log has it. Raises as `note_rewound`."""
        ...

    def open_direct(self, write_id: str) -> bool:
        """Notes a direct write that adds rows, before it takes its position: until `close_direct`, rows may still come into the
        table whose `_seq` the log has passed. Returns whether other writes gave no sign of life for minutes.

        Raises:
            Conflict, StorageUnavailable: try again.
        """
        ...

    def renew_direct(self, write_id: str) -> None:
        """Says that a noted write is still under way. Raises as `open_direct`."""
        ...

    def is_noted(self, write_id: str) -> bool:
        """Whether it is still noted; if not, it may not commit. Raises as `open_direct`."""
        ...

    def is_held(self, view: LogView) -> bool:
        """Whether a noted write whose id begins with `HELD` is about to commit, at a position that the view has: what is read
        behind the view is about to change. Raises as `open_direct`."""
        ...

    def has_quiet(self, view: LogView) -> bool:
        """Whether the view notes writes that gave no sign of life for minutes, or may have given none: `replace_quiet` knows."""
        ...

    def replace_quiet(self, barrier_id: str) -> bool:
        """Notes a barrier in place of those; returns whether there were any. Raises as `open_direct`.

        They may still have a commit on its way: the barrier is closed once another commit came first.
        """
        ...

    def close_direct(self, write_id: str) -> None:
        """The write is in the table, or never will be; with it all its attempts, `<write_id>/…`. Idempotent; raises as
        `open_direct`."""
        ...

    def direct_upto(self) -> int | None:
        """Returns the last possible `_seq` up to which no direct write is under way; None when none is.

        With the end of the log read before, and the table behind: the table then has every row of direct writes up to both.
        """
        ...

    def note_rewound(self, marks: Sequence[str], position: int | None = None) -> None:
        """Notes that the rows of users (by keyed hash) changed before this position was taken, which no row of the log says;
        without a position, takes one.

        Raises:
            NotFound: the table was dropped.
            Conflict, StorageUnavailable: try again.
        """
        ...

    def give_up(self, faults: LogFaults) -> None:
        """Gives up what is lost, so that the log works again. Where rows are, the last batch of each writer with an identity is
        uncertain from then on, and there may have been other writers. Idempotent.

        Raises:
            Conflict, StorageUnavailable: try again.
        """
        ...

    def leave_out_chunks(self, chunks: Collection[RowRange]) -> None:
        """Goes on without the rows of chunks that cannot be read, as `give_up` does without lost ones."""
        ...

    def jump(self, position: int, settled: Mapping[str, int], *, lost: bool = False) -> None:
        """Continues after a position, and carries the pending rows: for a state that was restored from a backup.

        Ends every subscription. The log must not have faults; give those up first. Idempotent.

        Args:
            position: the highest position known to be taken: of cuts, floors and watermarks.
            settled: the `_seq` up to which each user's rows are in the user's table; without an entry, no rows are.
            lost: whether the log ends before that position: then writers with an identity are uncertain, as of `give_up`.

        Raises:
            InvalidArgument: there is no position after that one.
            Corrupt: the log has faults.
            Conflict, StorageUnavailable: try again.
        """
        ...

    def drop(self) -> None:
        """Refuses further appends, and removes the rows. Idempotent; calling it again also removes what late writers left.

        Raises:
            Conflict: flushes settled the log again and again meanwhile.
            StorageUnavailable: the store failed; try again.
        """
        ...
