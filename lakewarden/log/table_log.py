"""The write log of one table: the class through which everything outside this package reaches it.

`log.logs` creates them. `lakewarden/log/objects/` is what they are made of: immutable objects that any number of processes
share. Each method calls one of the modules there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import pyarrow as pa
from msgspec.structs import replace

from lakewarden.base.clock import Clock, NewId
from lakewarden.base.faults import Reach, no_faults
from lakewarden.base.setting_sections import LogSettings
from lakewarden.base.threads import QueuedTurns
from lakewarden.catalog.model import TableSchema
from lakewarden.errors import Corrupt
from lakewarden.log.chunk import RowRange
from lakewarden.log.log_reader import LogReader
from lakewarden.log.objects.cache import HeaderCache
from lakewarden.log.objects.cut import newest_cut
from lakewarden.log.objects.cuts import mend, notes, writers
from lakewarden.log.objects.cuts.closing import close_user, gone_since, leave_out, open_user, remove_log
from lakewarden.log.objects.cuts.fill import fill
from lakewarden.log.objects.cuts.next_cut import has_expired
from lakewarden.log.objects.cuts.settle import CutTerms, settle
from lakewarden.log.objects.log_view import LogView
from lakewarden.log.objects.put import WriterTerms
from lakewarden.log.objects.staging import remove_abandoned
from lakewarden.log.objects.writer import LogWriter
from lakewarden.log.once import Pieces, Resume, StagedPiece, Staging, WriterBatch, stopped, writer_key
from lakewarden.log.position import Behind, Receipt, end_of
from lakewarden.log.record import Batch, LogBatch
from lakewarden.log.touches import Touched
from lakewarden.log.view import Mark, PendingRows
from lakewarden.storage.location import local_path
from lakewarden.storage.objects import ObjectStore


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


HELD: Final = "held/"
"""How the id of a direct write begins for which those wait that read what it is about to change."""

_WORTH = 16
"""Small objects that no reader needs, from which an object store is asked to remove them: those of eight flushes or so."""


class TableLog(LogReader):
    """A log for writing, and an `Appending`: one object per log and open warehouse."""

    def __init__(
        self, store: ObjectStore, log_id: str, terms: LogTerms, headers: HeaderCache | None = None, *, reach: Reach = no_faults
    ) -> None:
        super().__init__(store, log_id, headers)
        self._terms = terms
        self._reach = reach
        self._pays_by_request = local_path(store.uri) is None
        self._writer: LogWriter | None = None
        self._making = threading.Lock()
        self._turns = QueuedTurns()
        self._store_clock = notes.StoreClock(store, log_id, terms.clock)

    def look_again(self) -> None:
        """The next append looks at the log as a new process would: it was seen to be damaged."""
        if self._writer is not None:
            self._writer.gathering.look_again()

    def view(self, users: Collection[str] | None = None) -> LogView:
        try:
            return super().view(users)
        except Corrupt:
            self.look_again()
            raise

    def announced(self) -> AbstractContextManager[None]:
        """Announces, while it is open, that this thread will append soon, after a short look at least: a segment that would
        be put before waits for it, for `gather_seconds` at most. The wait ends when the thread appends, or leaves the context.
        """
        return self._the_writer().gathering.announced()

    def turn(self, user: str | None) -> AbstractContextManager[None]:
        """Lets one thread after the other read all rows of a scope and append behind what it read: at the same time, all but one
        would lose, and read again. It may be entered again by the thread that has it.

        Args:
            user: whose scope; None for the rows of a SHARED table, or of many users.
        """
        return self._turns.of(user or "")

    def ready(self, view: LogView) -> None:
        return

    def append(self, batch: Batch, after: int | None = None, keys: Touched | None = None) -> Receipt:
        return self._the_writer().append(batch, after, keys)

    def append_whole(self, batches: Iterable[LogBatch], after: int | Behind | None = None) -> Receipt:
        return self._the_writer().append_whole(batches, after)

    def begin_batch(self) -> Staging:
        """Begins a batch of rows of any users, which any process may stage. All of it becomes visible together, or nothing.

        It has to be published within a day. What is never published is removed two days later.

        Raises:
            Unsupported: the warehouse is of an older format.
        """
        return self._the_writer().begin_batch()

    def stage(self, staging: Staging, batch: LogBatch) -> tuple[StagedPiece, ...]:
        """Makes rows of a batch durable, in any process. Nothing shows them before the batch is published.

        Raises:
            StorageUnavailable: the store failed; stage them again.
        """
        return self._the_writer().stage(staging, batch)

    def staged_rows(
        self, staging: Staging, pieces: Iterable[StagedPiece], schemas: tuple[TableSchema, ...]
    ) -> Iterator[pa.Table]:
        """Reads what was staged, piece by piece, which goes elsewhere than to the log: the newest schema's columns, and `_op`.

        Raises:
            Missing: it was abandoned.
        """
        return self._the_writer().staged_rows(staging, pieces, schemas)

    def publish(self, staging: Staging, pieces: Pieces, once: WriterBatch | None = None) -> Receipt | None:
        return self._the_writer().publish(staging, pieces, once)

    def append_once(self, batch: LogBatch, once: WriterBatch) -> Receipt | None:
        staging = self.begin_batch()
        return self.publish(staging, self.stage(staging, batch), once)

    def abandon(self, staging: Staging) -> None:
        """Removes what was staged of a batch, unless it was published. Idempotent."""
        self._the_writer().abandon(staging)

    def published(self, writer: str) -> int | None:
        """Returns the number of the last batch that was published with this writer's identity; None without one.

        Raises:
            FailedPrecondition: it is uncertain since a repair.
        """
        last = self._the_writer().last_batch(writer_key(writer))
        if not last.certain:
            raise stopped(writer, "the table", last.number)
        return last.number

    def resume(self, writer: str, how: Resume, end: int | None = None) -> None:
        """Says from where a writer goes on whose last batch is uncertain; changes nothing of others.

        Args:
            end: the number up to which `skip` leaves out where the last one is not known.

        Raises:
            Conflict, StorageUnavailable: try again.
        """
        writers.resume(self._store, self._log_id, writer_key(writer), how, end)

    def _the_writer(self) -> LogWriter:
        # Not before it is needed: it would count as one that slept, whose first append asks whether the table is still there.
        with self._making:
            self._writer = self._writer or self._new_writer()
            return self._writer

    def _new_writer(self) -> LogWriter:
        terms = self._terms
        known = WriterTerms(terms.format, self._headers, self._pays_by_request, terms.floor, terms.still_there, reach=self._reach)
        return LogWriter.of(self._store, self._log_id, terms.settings, terms.clock, terms.new_id, terms.mark, known)

    def _cut_terms(self, reach: Reach = no_faults, kept_seconds: float | None = None) -> CutTerms:
        """`kept_seconds` in place of the warehouse's, for the history."""
        terms = self._terms
        settings = terms.settings if kept_seconds is None else replace(terms.settings, retention_seconds=kept_seconds)
        return CutTerms(settings, terms.new_id, terms.format, reach)

    def settle(self, view: LogView, settled: Mapping[str, int], *, keep: bool | float = True, reach: Reach = no_faults) -> None:
        """Notes that each user's rows up to a `_seq` are durably in the user's table, then cleans up.

        `view` is the one that was flushed; a newer or older one does no harm. With nothing settled, this only cleans up.

        Args:
            keep: the rows stay readable for subscribers for `retention_seconds`, or for so many seconds where it is a number.

        Raises:
            Conflict: others settled the same log again and again meanwhile. Nothing is lost: settle later.
            StorageUnavailable: the store failed. Nothing is lost: settle later.
        """
        self._settle(view, settled, keep, _WORTH if keep is not False and self._pays_by_request else 1, reach)

    def _settle(self, view: LogView, settled: Mapping[str, int], keep: bool | float, worth: int, reach: Reach) -> None:
        now = None if keep is False else self._terms.clock()
        terms = self._cut_terms(reach, None if isinstance(keep, bool) else keep)
        settle(self._store, view, settled, terms, now=now, cache=self._headers, worth=worth)

    def forget_expired(self, view: LogView, kept_seconds: float | None = None) -> None:
        """Removes what has been kept for subscribers for long enough, and what dead writers left. Raises as `settle`.

        Args:
            kept_seconds: how long that is, instead of `retention_seconds`.
        """
        seconds = self._terms.settings.retention_seconds if kept_seconds is None else kept_seconds
        remove_abandoned(self._store, self._log_id, view.unnamed, self._terms.clock())
        if has_expired(view.cut, seconds, self._terms.clock()):
            self._settle(view, {}, float(seconds), 1, no_faults)

    def gone_since(self, view: LogView, users: Collection[str]) -> set[str]:
        """Returns the view's pending users who were closed or erased since it was read; all of them if the table was dropped.

        Call this after storing a user's name, and remove the names of these users again. A later erasure finds the others.
        """
        return gone_since(self._store, view, users, self._terms.mark)

    def require_columns(self, version: int) -> None:
        """From now on appends of rows of an older schema version raise `SchemaChanged`. Idempotent.

        Raises:
            Conflict, StorageUnavailable: try again.
        """
        notes.require_columns(self._store, self._log_id, version, self._terms.new_id, self._terms.format)

    def raise_fence(self, token: int, *, replaces: bool) -> None:
        """From now on what carries a lower token (`log.once`) is refused with `LostPlace`. Idempotent.

        Args:
            replaces: a stream may still be at work under a lower token, and have looked at the log: it is refused, too.

        Raises:
            Conflict, StorageUnavailable: try again.
        """
        notes.raise_fence(self._store, self._log_id, token, self._terms.new_id, self._terms.format, replaces=replaces)

    def fence(self) -> int:
        """Returns the highest token by which it was raised; 0 without one. Raises as `raise_fence`."""
        return newest_cut(self._store, self._log_id).fence

    def close_user(self, mark: str) -> int:
        """From now on appends for the user with this keyed hash raise `BeingErased`. Idempotent.

        Returns the last `_seq` that rows of the user can have, also those of writers who have not looked yet.

        Raises:
            Conflict, StorageUnavailable: try again.
        """
        close_user(self._store, self._log_id, mark)
        return end_of(fill(self._store, self._log_id, self._terms.new_id, self._terms.format))

    def open_user(self, mark: str) -> None:
        """Accepts the user's writes again; their `_seq` is higher than every old one. Idempotent."""
        open_user(self._store, self._log_id, mark)

    def leave_out(
        self, user: str, now: datetime, *, found: Callable[[PendingRows], None] = lambda pending: None, reach: Reach = no_faults
    ) -> int:
        """Removes a closed user's rows and name from the log and its history. Returns the last `_seq` that
        is then settled.

        Calls `found` with the rows before they are removed. Idempotent.

        Raises:
            Conflict, StorageUnavailable: others settled the log again and again, or the store failed; try again.
        """
        mark, terms = self._terms.mark(user), self._cut_terms(reach)
        return leave_out(self._store, self._log_id, user, mark, terms, now=now, found=found)

    def take_position(self) -> int:
        """Takes a position for a write that goes past the log: no row of the log has it. Raises as `note_rewound`."""
        terms = self._terms
        return notes.take_position(self._store, self._log_id, terms.mark, terms.new_id, segment_format=terms.format)

    def open_direct(self, write_id: str) -> bool:
        """Notes a direct write that adds rows, before it takes its position: until `close_direct`, rows may still come into the
        table whose `_seq` the log has passed. Returns whether other writes gave no sign of life for minutes.

        Raises:
            Conflict, StorageUnavailable: try again.
        """
        return notes.open_direct(self._store, self._log_id, write_id, self._store_clock)

    def renew_direct(self, write_id: str) -> None:
        """Says that a noted write is still under way. Raises as `open_direct`."""
        notes.renew_direct(self._store, self._log_id, write_id, self._store_clock())

    def is_noted(self, write_id: str) -> bool:
        """Whether it is still noted; if not, it may not commit. Raises as `open_direct`."""
        return write_id in newest_cut(self._store, self._log_id).direct

    def is_held(self, view: LogView) -> bool:
        """Whether a noted write whose id begins with `HELD` is about to commit, at a position that the view has: what is read
        behind the view is about to change. Raises as `open_direct`."""
        # Who is about to commit has taken a position without rows, and none with rows comes behind it before that is over.
        run = view.run
        if run and run[-1].rows:
            return False
        return any(id_.startswith(HELD) for id_ in newest_cut(self._store, self._log_id).direct)

    def has_quiet(self, view: LogView) -> bool:
        """Whether the view notes writes that gave no sign of life for minutes, or may have given none: `replace_quiet` knows."""
        return notes.may_be_quiet(view.cut, self._store_clock)

    def replace_quiet(self, barrier_id: str) -> bool:
        """Notes a barrier in place of those; returns whether there were any. Raises as `open_direct`.

        They may still have a commit on its way: the barrier is closed once another commit came first.
        """
        return notes.replace_quiet(self._store, self._log_id, barrier_id, self._store_clock)

    def close_direct(self, write_id: str) -> None:
        """The write is in the table, or never will be; with it all its attempts, `<write_id>/…`. Idempotent; raises as
        `open_direct`."""
        notes.close_direct(self._store, self._log_id, write_id)

    def direct_upto(self) -> int | None:
        """Returns the last possible `_seq` up to which no direct write is under way; None when none is.

        With the end of the log read before, and the table behind: the table then has every row of direct writes up to both.
        """
        # No clock has a say in it: a note counts until a write, a flush or a barrier has taken it away, behind which its write
        # cannot commit.
        noted = newest_cut(self._store, self._log_id).direct.values()
        return min((end_of(before) for before, _ in noted), default=None)

    def note_rewound(self, marks: Sequence[str], position: int | None = None) -> None:
        """Notes that the rows of users (by keyed hash) changed before this position was taken, which no row of the log says;
        without a position, takes one.

        Raises:
            NotFound: the table was dropped.
            Conflict, StorageUnavailable: try again.
        """
        notes.note_rewound(self._store, self._log_id, marks, self.take_position() if position is None else position)

    def give_up(self, faults: mend.LogFaults) -> None:
        """Gives up what is lost, so that the log works again. Where rows are, the last batch of each writer with an identity is
        uncertain from then on, and there may have been other writers. Idempotent.

        Raises:
            Conflict, StorageUnavailable: try again.
        """
        mend.give_up(self._store, faults)

    def leave_out_chunks(self, chunks: Collection[RowRange]) -> None:
        """Goes on without the rows of chunks that cannot be read, as `give_up` does without lost ones."""
        mend.leave_out_chunks(self._store, self._log_id, chunks, self._cut_terms(), now=self._terms.clock())

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
        mend.jump(self._store, self._log_id, position, settled, self._cut_terms(), mark=self._terms.mark, lost=lost)

    def drop(self) -> None:
        """Refuses further appends, and removes the rows. Idempotent; calling it again also removes what late writers left.

        Raises:
            Conflict: flushes settled the log again and again meanwhile.
            StorageUnavailable: the store failed; try again.
        """
        remove_log(self._store, self._log_id)
