"""The reading of one table's log: everything outside this package does it through this class (`table_log`)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa

from lakewarden.base.write_key import Trace, trace_of
from lakewarden.catalog.model import TableSchema
from lakewarden.errors import Corrupt
from lakewarden.log.chunk import RowRange
from lakewarden.log.objects import names
from lakewarden.log.objects.cache import HeaderCache
from lakewarden.log.objects.cut import newest_cut
from lakewarden.log.objects.cuts import mend, writers
from lakewarden.log.objects.log_view import LogView
from lakewarden.log.objects.segment import may_have_metadata, read_chunk, read_chunks, read_metadata
from lakewarden.log.objects.trail import Trail, read_trail
from lakewarden.log.objects.view import make_durable, read_view, rows_of
from lakewarden.log.once import LastBatch
from lakewarden.log.view import PendingRows, UserSigns
from lakewarden.storage.objects import Missing, ObjectStore

_APART = 64 << 10
"""Bytes between two chunks that are read with them rather than left out by a request more."""

_AT_ONCE = 1000
"""Chunks that are read together to see whether they are garbled: neighbours in a segment by one request."""


class LogReader:
    """Reads a log. Safe for threads. A task creates its own, from the place of the state and the log's id."""

    def __init__(self, store: ObjectStore, log_id: str, headers: HeaderCache | None = None) -> None:
        self._store = store
        self._log_id = log_id
        self._headers = headers or HeaderCache()

    @property
    def log_id(self) -> str:
        return self._log_id

    @property
    def home(self) -> str:
        """The key in the warehouse's state below which all of the log is."""
        return names.home(self._log_id)

    # For who met `Missing`: what is cached may be of objects that were cleaned up, or whose names came again.
    def anew(self) -> LogReader:
        """Returns the same reader without anything read before."""
        return LogReader(self._store, self._log_id)

    def view(self, users: Collection[str] | None = None) -> LogView:
        """Returns the log as it is now. An unknown log is empty.

        Args:
            users: those who will be looked up, all by default. To look up others may raise `Missing`.

        Raises:
            Corrupt: a part of it is lost or cannot be read.
            Conflict: it was settled again and again meanwhile.
        """
        return read_view(self._store, self._log_id, self._headers, users)

    def make_durable(self, view: LogView) -> None:
        """Makes what the view shows durable, for a caller that will record elsewhere how far it read.

        Raises:
            NotDurable: the disk reported an error.
        """
        make_durable(self._store, view)

    def rows(self, pending: PendingRows, schemas: tuple[TableSchema, ...], *, for_flush: bool = False) -> pa.Table:
        """Returns a user's pending rows: the columns of the newest schema, `_seq`, `_op`; ascending by `_seq`.

        Args:
            for_flush: keeps what their writers attached, for `log.chunk.taken`; and the rows at hand, for `TableLog.settle`.

        Raises:
            Missing: they were settled and cleaned up meanwhile; read the log again.
            Conflict: they have a schema version that is not among `schemas`.
        """
        return rows_of(self._store, pending, schemas, for_flush=for_flush)

    def metadata(self, pending: PendingRows) -> list[str]:
        """Returns what the writers of these rows attached, in their order, without a look at chunks that have none.

        Raises `Missing` when they were cleaned up.
        """
        return [read_metadata(self._store, each) for each in pending.ranges if may_have_metadata(each)]

    def chunk(self, where: RowRange) -> memoryview:
        """Returns a chunk's rows, still encoded (`record.decode`). Raises `Missing` when it was cleaned up."""
        return read_chunk(self._store, where)

    def chunks(self, where: Sequence[RowRange]) -> list[memoryview]:
        """Returns the same of many chunks, in their order. Neighbours in an object are read at once."""
        order = sorted(range(len(where)), key=lambda number: (where[number].key, where[number].offset))
        found = dict(zip(order, read_chunks(self._store, [where[number] for number in order], apart=_APART), strict=True))
        return [found[number] for number in range(len(where))]

    def garbled(self, where: Sequence[RowRange]) -> dict[RowRange, Corrupt]:
        """Returns those of the chunks whose bytes are not those that were appended, and why. A chunk that was cleaned away
        meanwhile does not count.

        Raises:
            StorageUnavailable: the store failed.
        """
        found: dict[RowRange, Corrupt] = {}
        for start in range(0, len(where), _AT_ONCE):
            found |= self._halved(where[start : start + _AT_ONCE])
        return found

    def _halved(self, where: Sequence[RowRange]) -> dict[RowRange, Corrupt]:
        """Most often none is garbled, and one read says so."""
        try:
            self.chunks(where)
        except Missing:
            if len(where) == 1:
                return {}
        except Corrupt as error:
            if len(where) == 1:
                return {where[0]: error}
        else:
            return {}
        # By halves: of a thousand chunks one garbled one is found in about ten reads.
        half = len(where) // 2
        return self._halved(where[:half]) | self._halved(where[half:])

    def trail(self, after: int, users: Collection[str] | None = None) -> Trail:
        """Returns the log and its history, where they hold rows beyond that `_seq`.

        Args:
            users: those who will be looked up, each then without a search; all by default. Raises as `view`.
        """
        return read_trail(self._store, self._log_id, after, self._headers, users)

    def signs(self, mark: str) -> UserSigns:
        """Returns what the log now says of the user with this keyed hash."""
        return newest_cut(self._store, self._log_id).signs(mark)

    def trace(self, key: str) -> Trace:
        """What the log shows of a write that carried this key (`write_key`). Raises as `LogReader.view`."""
        view = read_view(self._store, self._log_id, HeaderCache(0), ())
        rows = dict(view.cut.keyed)
        for header in view.run:
            rows.update(header.keys)
        return trace_of(key, rows, certain=not view.cut.keys_gone)

    def faults(self) -> mend.LogFaults:
        """Reads all of the log again, and returns what is lost.

        Raises:
            Corrupt: it cannot be determined what is lost.
            Conflict: it was settled again and again meanwhile.
        """
        return mend.faults_of(self._store, self._log_id)

    def last_batches(self) -> dict[str, LastBatch]:
        """The last batch of each writer with an identity that is known, by `writer_key`."""
        return writers.last_batches(self._store, self._log_id)
