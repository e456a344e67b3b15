"""A table's log of objects (log.table_log): each method calls one of the modules beside this one."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime

import pyarrow as pa
from msgspec.structs import replace

from lakewarden.base.faults import Reach, no_faults
from lakewarden.base.write_key import Trace, trace_of
from lakewarden.catalog.model import TableSchema
from lakewarden.errors import Corrupt
from lakewarden.log.chunk import RowRange
from lakewarden.log.objects import names
from lakewarden.log.objects.cache import HeaderCache
from lakewarden.log.objects.cut import newest_cut
from lakewarden.log.objects.cuts import mend, notes, writers
from lakewarden.log.objects.cuts.closing import close_user, gone_since, leave_out, open_user, remove_log
from lakewarden.log.objects.cuts.fill import fill
from lakewarden.log.objects.cuts.next_cut import has_expired
from lakewarden.log.objects.cuts.settle import CutTerms, settle
from lakewarden.log.objects.log_view import ListedLogView
from lakewarden.log.objects.put import WriterTerms
from lakewarden.log.objects.segment import read_chunk, read_chunks
from lakewarden.log.objects.staging import remove_abandoned
from lakewarden.log.objects.trail import ListedTrail, read_trail
from lakewarden.log.objects.view import make_durable, metadata_of, read_view, rows_of
from lakewarden.log.objects.writer import LogWriter
from lakewarden.log.once import LastBatch, Pieces, Resume, StagedPiece, Staging, WriterBatch, stopped, writer_key
from lakewarden.log.position import Receipt, end_of
from lakewarden.log.record import Batch, LogBatch
from lakewarden.log.table_log import Behind, LogTerms
from lakewarden.log.touches import Touched
from lakewarden.log.view import LogFaults, PendingRows, UserSigns
from lakewarden.log.view import LogView as AnyView
from lakewarden.storage.location import local_path
from lakewarden.storage.objects import ObjectStore


# Turns of threads that would only make each other's work void.
class QueuedTurns:
    """Turns by name, in the order in which they were asked for. Safe for threads.

    A lock of Python's goes to whoever runs when it is free, most often the thread that had it: of 64 clients, one would wait
    for several times the turns of the others.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queues: dict[str, deque[tuple[int, threading.Lock]]] = {}
        """By name, the threads that wait behind the one that has the turn, which is there once for each time that it entered."""

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        """Waits for the turn, and has it for the block. It may be entered again by the thread that has it."""
        own = threading.get_ident(), threading.Lock()
        try:
            if self._waits(name, own):
                own[1].acquire()
            yield
        finally:
            self._leave(name, own)

    def _waits(self, name: str, own: tuple[int, threading.Lock]) -> bool:
        """Queues up; whether another thread has the turn. It releases the lock of the next one when it leaves."""
        with self._lock:
            queue = self._queues.setdefault(name, deque())
            if queue and queue[0][0] != own[0]:
                own[1].acquire()
                queue.append(own)
                return True
            # In front: the turn is free, or the thread has it already.
            queue.appendleft(own)
            return False

    def _leave(self, name: str, own: tuple[int, threading.Lock]) -> None:
        with self._lock:
            queue = self._queues.get(name, deque())
            if own not in queue:
                return  # interrupted before it stood there
            had_it = queue[0] is own  # else it was interrupted while it waited
            queue.remove(own)
            if not queue:
                del self._queues[name]
            # A thread that entered twice still has the turn after it left once.
            elif had_it and queue[0][0] != own[0]:
                queue[0][1].release()


_APART = 64 << 10
"""Bytes between two chunks that are read with them rather than left out by a request more."""

_WORTH = 16
"""Small objects that no reader needs, from which an object store is asked to remove them: those of eight flushes or so."""


class ObjectReader:
    """A `LogReader`."""

    def __init__(self, store: ObjectStore, log_id: str, headers: HeaderCache | None = None) -> None:
        self._store = store
        self._log_id = log_id
        self._headers = headers or HeaderCache()

    @property
    def log_id(self) -> str:
        return self._log_id

    @property
    def home(self) -> str:
        return names.home(self._log_id)

    def anew(self) -> ObjectReader:
        return ObjectReader(self._store, self._log_id)

    def view(self, users: Collection[str] | None = None) -> ListedLogView:
        return read_view(self._store, self._log_id, self._headers, users)

    def make_durable(self, view: AnyView) -> None:
        make_durable(self._store, _own(view))

    def rows(self, pending: PendingRows, schemas: tuple[TableSchema, ...], *, for_flush: bool = False) -> pa.Table:
        return rows_of(self._store, pending, schemas, for_flush=for_flush)

    def metadata(self, pending: PendingRows) -> list[str]:
        return metadata_of(self._store, pending)

    def chunk(self, where: RowRange) -> memoryview:
        return read_chunk(self._store, where)

    def chunks(self, where: Sequence[RowRange]) -> list[memoryview]:
        order = sorted(range(len(where)), key=lambda number: (where[number].key, where[number].offset))
        found = dict(zip(order, read_chunks(self._store, [where[number] for number in order], apart=_APART), strict=True))
        return [found[number] for number in range(len(where))]

    def trail(self, after: int, users: Collection[str] | None = None) -> ListedTrail:
        return read_trail(self._store, self._log_id, after, self._headers, users)

    def signs(self, mark: str) -> UserSigns:
        return newest_cut(self._store, self._log_id).signs(mark)

    def trace(self, key: str) -> Trace:
        view = read_view(self._store, self._log_id, HeaderCache(0), ())
        rows = dict(view.cut.keyed)
        for header in view.run:
            rows.update(header.keys)
        return trace_of(key, rows, certain=not view.cut.keys_gone)

    def faults(self) -> mend.ObjectLogFaults:
        return mend.faults_of(self._store, self._log_id)


class ObjectLog(ObjectReader):
    """A `TableLog`."""

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
            self._writer.look_again()

    def view(self, users: Collection[str] | None = None) -> ListedLogView:
        try:
            return super().view(users)
        except Corrupt:
            self.look_again()
            raise

    def announced(self) -> AbstractContextManager[None]:
        return self._the_writer().announced()

    def turn(self, user: str | None) -> AbstractContextManager[None]:
        return self._turns.of(user or "")

    def ready(self, view: AnyView) -> None:
        return

    def append(self, batch: Batch, after: int | None = None, keys: Touched | None = None) -> Receipt:
        return self._the_writer().append(batch, after, keys)

    def append_whole(self, batches: Iterable[LogBatch], after: int | Behind | None = None) -> Receipt:
        return self._the_writer().append_whole(batches, after)

    def begin_batch(self) -> Staging:
        return self._the_writer().batches.begin()

    def stage(self, staging: Staging, batch: LogBatch) -> tuple[StagedPiece, ...]:
        return self._the_writer().batches.stage(staging, batch)

    def staged_rows(
        self, staging: Staging, pieces: Iterable[StagedPiece], schemas: tuple[TableSchema, ...]
    ) -> Iterator[pa.Table]:
        return self._the_writer().batches.rows(staging, pieces, schemas)

    def publish(self, staging: Staging, pieces: Pieces, once: WriterBatch | None = None) -> Receipt | None:
        return self._the_writer().batches.publish(staging, pieces, once)

    def append_once(self, batch: LogBatch, once: WriterBatch) -> Receipt | None:
        staging = self.begin_batch()
        return self.publish(staging, self.stage(staging, batch), once)

    def abandon(self, staging: Staging) -> None:
        self._the_writer().batches.abandon(staging)

    def published(self, writer: str) -> int | None:
        last = self._the_writer().batches.last(writer_key(writer))
        if not last.certain:
            raise stopped(writer, "the table", last.number)
        return last.number

    def last_batches(self) -> dict[str, LastBatch]:
        return writers.last_batches(self._store, self._log_id)

    def resume(self, writer: str, how: Resume, end: int | None = None) -> None:
        writers.resume(self._store, self._log_id, writer_key(writer), how, end)

    def _the_writer(self) -> LogWriter:
        with self._making:
            self._writer = self._writer or self._new_writer()
            return self._writer

    def _new_writer(self) -> LogWriter:
        terms = self._terms
        known = WriterTerms(terms.format, self._headers, self._pays_by_request, terms.floor, terms.still_there, reach=self._reach)
        return LogWriter(self._store, self._log_id, terms.settings, terms.clock, terms.new_id, terms.mark, known)

    def _cut_terms(self, reach: Reach = no_faults, kept_seconds: float | None = None) -> CutTerms:
        """`kept_seconds` in place of the warehouse's, for the history."""
        terms = self._terms
        settings = terms.settings if kept_seconds is None else replace(terms.settings, retention_seconds=kept_seconds)
        return CutTerms(settings, terms.new_id, terms.format, reach)

    def settle(self, view: AnyView, settled: Mapping[str, int], *, keep: bool | float = True, reach: Reach = no_faults) -> None:
        self._settle(view, settled, keep, _WORTH if keep is not False and self._pays_by_request else 1, reach)

    def _settle(self, view: AnyView, settled: Mapping[str, int], keep: bool | float, worth: int, reach: Reach) -> None:
        now = None if keep is False else self._terms.clock()
        terms = self._cut_terms(reach, None if isinstance(keep, bool) else keep)
        settle(self._store, _own(view), settled, terms, now=now, cache=self._headers, worth=worth)

    def forget_expired(self, view: AnyView, kept_seconds: float | None = None) -> None:
        seconds = self._terms.settings.retention_seconds if kept_seconds is None else kept_seconds
        remove_abandoned(self._store, self._log_id, _own(view).unnamed, self._terms.clock())
        if has_expired(_own(view).cut, seconds, self._terms.clock()):
            self._settle(view, {}, float(seconds), 1, no_faults)

    def gone_since(self, view: AnyView, users: Collection[str]) -> set[str]:
        return gone_since(self._store, _own(view), users, self._terms.mark)

    def require_columns(self, version: int) -> None:
        notes.require_columns(self._store, self._log_id, version, self._terms.new_id, self._terms.format)

    def raise_fence(self, token: int, *, replaces: bool) -> None:
        notes.raise_fence(self._store, self._log_id, token, self._terms.new_id, self._terms.format, replaces=replaces)

    def fence(self) -> int:
        return newest_cut(self._store, self._log_id).fence

    def close_user(self, mark: str) -> int:
        close_user(self._store, self._log_id, mark)
        return end_of(fill(self._store, self._log_id, self._terms.new_id, self._terms.format))

    def open_user(self, mark: str) -> None:
        open_user(self._store, self._log_id, mark)

    def leave_out(
        self, user: str, now: datetime, *, found: Callable[[PendingRows], None] = lambda pending: None, reach: Reach = no_faults
    ) -> int:
        mark, terms = self._terms.mark(user), self._cut_terms(reach)
        return leave_out(self._store, self._log_id, user, mark, terms, now=now, found=found)

    def take_position(self) -> int:
        terms = self._terms
        return notes.take_position(self._store, self._log_id, terms.mark, terms.new_id, segment_format=terms.format)

    def open_direct(self, write_id: str) -> bool:
        return notes.open_direct(self._store, self._log_id, write_id, self._store_clock)

    def renew_direct(self, write_id: str) -> None:
        notes.renew_direct(self._store, self._log_id, write_id, self._store_clock())

    def is_noted(self, write_id: str) -> bool:
        return notes.is_noted(self._store, self._log_id, write_id)

    def is_held(self, view: AnyView) -> bool:
        """Who is about to commit has taken a position without rows, and none with rows comes behind it before that is over."""
        run = _own(view).run
        goes_on = bool(run) and run[-1].rows > 0
        return not goes_on and notes.is_held(self._store, self._log_id)

    def has_quiet(self, view: AnyView) -> bool:
        return notes.may_be_quiet(_own(view).cut, self._store_clock)

    def replace_quiet(self, barrier_id: str) -> bool:
        return notes.replace_quiet(self._store, self._log_id, barrier_id, self._store_clock)

    def close_direct(self, write_id: str) -> None:
        notes.close_direct(self._store, self._log_id, write_id)

    def direct_upto(self) -> int | None:
        upto = notes.resolved_upto(newest_cut(self._store, self._log_id))
        return None if upto is None else end_of(upto)

    def note_rewound(self, marks: Sequence[str], position: int | None = None) -> None:
        notes.note_rewound(self._store, self._log_id, marks, self.take_position() if position is None else position)

    def give_up(self, faults: LogFaults) -> None:
        assert isinstance(faults, mend.ObjectLogFaults), "faults of a log of objects"
        mend.give_up(self._store, faults)

    def leave_out_chunks(self, chunks: Collection[RowRange]) -> None:
        mend.leave_out_chunks(self._store, self._log_id, chunks, self._cut_terms(), now=self._terms.clock())

    def jump(self, position: int, settled: Mapping[str, int], *, lost: bool = False) -> None:
        mend.jump(self._store, self._log_id, position, settled, self._cut_terms(), mark=self._terms.mark, lost=lost)

    def drop(self) -> None:
        remove_log(self._store, self._log_id)


def _own(view: AnyView) -> ListedLogView:
    assert isinstance(view, ListedLogView), "a view of a log of objects"
    return view
