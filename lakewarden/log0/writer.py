"""Appending: the next free position, taken by a conditional put, then one look whether it came too late (docs/log.md)."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

import pyarrow as pa

from lakewarden.clock import Clock, NewId
from lakewarden.errors import Conflict, LakewardenError, NotFound, StorageUnavailable
from lakewarden.faults import Reach, no_faults
from lakewarden.log0 import layout
from lakewarden.log0.cut import newest_cut
from lakewarden.log0.position import end_of
from lakewarden.log0.record import USER, LogBatch
from lakewarden.log0.segment import encode, pieces_of
from lakewarden.log0.view import last_position, read_header
from lakewarden.settings import LogSettings
from lakewarden.storage.objects import AlreadyThere, Missing, ObjectStore

_RESOLVE = 5
"""Tries to learn what became of a put whose answer was lost."""

_MISSES = 8
"""Positions found taken one after another before the writer looks where the log's end is."""


@dataclass(frozen=True)
class Receipt:
    """Acknowledged rows. `last_seq` is not below the `_seq` of any of them."""

    rows: int
    last_seq: int


@dataclass
class _Waiting:
    """A call of `append` and what became of it."""

    batch: LogBatch
    receipt: Receipt | None = None
    error: LakewardenError | None = None


class LogWriter:
    """Appends to one log partition. Safe to share between threads: their calls share segments."""

    def __init__(
        self, store: ObjectStore, log_id: str, settings: LogSettings, clock: Clock, new_id: NewId, reach: Reach = no_faults
    ) -> None:
        self._store = store
        self._log_id = log_id
        self._settings = settings
        self._clock = clock
        self._new_id = new_id
        self._reach = reach
        self._next: int | None = None
        self._queue: list[_Waiting] = []
        self._queued = threading.Lock()
        self._turn = threading.Lock()

    def append(self, batch: LogBatch, *, after: int | None = None) -> Receipt:
        """Makes the rows durable and returns.

        Args:
            after: the position that the caller read through; the rows then land right behind it, or not at all.

        Raises:
            Conflict: somebody else's rows came after `after`; read and try again.
            NotFound: the table was dropped.
            StorageUnavailable: the store failed; the message says which rows were acknowledged, or may have been taken.
        """
        if batch.rows.num_rows == 0:
            return Receipt(0, -1)
        if after is not None:
            with self._turn:
                return Receipt(batch.rows.num_rows, end_of(self._write(batch, after)))
        mine = _Waiting(batch)
        with self._queued:
            self._queue.append(mine)
        with self._turn:
            if mine.receipt is None and mine.error is None:
                self._write_queue()
        if mine.error is not None:
            raise mine.error
        assert mine.receipt is not None, "a turn settles every call that was queued before it"
        return mine.receipt

    def _write_queue(self) -> None:
        """Writes all that waits, calls of one schema version together."""
        with self._queued:
            waiting, self._queue = self._queue, []
        for group in _groups(waiting, self._settings):
            rows = pa.concat_tables([one.batch.rows for one in group])
            try:
                last = self._write_parts(LogBatch(group[0].batch.schema_version, rows))
            except LakewardenError as error:
                for one in group:
                    one.error = error
                continue
            for one in group:
                one.receipt = Receipt(one.batch.rows.num_rows, last)

    def _write_parts(self, batch: LogBatch) -> int:
        """As many segments as the rows need; returns the last `_seq` that they may have."""
        rows = batch.rows
        step = _rows_a_segment(rows, self._settings)
        last = -1
        for start in range(0, rows.num_rows, step):
            try:
                last = end_of(self._write(LogBatch(batch.schema_version, rows.slice(start, step)), None))
            except LakewardenError as error:
                if start:
                    raise type(error)(f"{error.message}; {_acknowledged(rows, start)}") from error
                raise
        return last

    def _write(self, batch: LogBatch, after: int | None) -> int:
        """Writes one segment; returns its position."""
        put = self._new_id()
        data = encode(pieces_of(batch, _micros(self._clock())), put)
        misses = 0
        while True:
            position = self._position(after)
            if not self._create(position, data, put):
                misses += 1
                self._missed(position, after, misses)
                continue
            self._reach("after-put")
            if self._settled_before(position):
                self._store.delete([layout.segment(self._log_id, position)])
                self._next = None
                if after is not None:
                    raise Conflict(f"the log moved on behind position {after}; read again and try again")
                continue
            self._next = position + 1
            return position

    def _position(self, after: int | None) -> int:
        if after is not None:
            return after + 1
        if self._next is None:
            self._next = last_position(self._store, self._log_id) + 1
        return self._next

    def _missed(self, position: int, after: int | None, misses: int) -> None:
        if after is not None:
            raise Conflict(f"the log has moved on behind position {after}; read again and try again")
        self._next = None if misses % _MISSES == 0 else position + 1

    def _create(self, position: int, data: bytes, put: str) -> bool:
        """Whether the position is ours. Never returns before that is known: a lost answer may hide a put that landed."""
        key = layout.segment(self._log_id, position)
        failure: StorageUnavailable | None = None
        for _ in range(_RESOLVE):
            try:
                self._store.create(key, data)
                return True
            except AlreadyThere:
                return self._made_it(key, put)
            except StorageUnavailable as error:
                failure = error
        raise StorageUnavailable(f"{failure}; whether the rows were taken is not known") from failure

    def _made_it(self, key: str, put: str) -> bool:
        try:
            header = read_header(self._store, key)
        except Missing as error:
            # settled and cleaned away in between: it may have been our own put, whose answer was lost
            raise StorageUnavailable(f"the log object {key} was taken and is gone; whether the rows were taken is not known") from error
        if header.seal:
            raise NotFound("the table was dropped: nothing can be written to it any more")
        return header.put == put

    def _settled_before(self, position: int) -> bool:
        """Whether the position had been settled already: then nobody will ever read what we put there."""
        while True:
            try:
                cut = newest_cut(self._store, self._log_id)
            except Missing:
                continue  # replaced by a newer one while we read it
            if cut.sealed:
                self._store.delete([layout.segment(self._log_id, position)])
                raise NotFound("the table was dropped: nothing can be written to it any more")
            return cut.upto >= position


def _groups(waiting: Sequence[_Waiting], settings: LogSettings) -> list[list[_Waiting]]:
    groups: list[list[_Waiting]] = []
    rows = 0
    for one in waiting:
        version = one.batch.schema_version
        if not groups or groups[-1][0].batch.schema_version != version or rows + one.batch.rows.num_rows > settings.segment_max_rows:
            groups.append([])
            rows = 0
        groups[-1].append(one)
        rows += one.batch.rows.num_rows
    return groups


def _rows_a_segment(rows: pa.Table, settings: LogSettings) -> int:
    by_bytes = rows.num_rows * settings.segment_max_bytes // max(rows.nbytes, 1)
    return max(1, min(settings.segment_max_rows, by_bytes))


def _acknowledged(rows: pa.Table, count: int) -> str:
    users = rows[USER].slice(0, count).unique().to_pylist()
    named = ", ".join(repr(user) for user in users[:10] if user)
    more = f" and {len(users) - 10} more" if len(users) > 10 else ""
    return f"the first {count} of {rows.num_rows} rows were acknowledged" + (f" (users {named}{more})" if named else "")


def _micros(moment: datetime) -> int:
    return int(moment.timestamp() * 1_000_000)
