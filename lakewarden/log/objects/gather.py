"""Group commit: calls that wait while a segment is being put share the next one.

The first caller leads: it puts a segment for itself and for whoever came meanwhile, then hands over to the first of
those that came during its put. There is no thread of its own, and a lone caller pays one lock.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from lakewarden.clock import HELD_AT_MOST, Clock, NewId, to_micros
from lakewarden.errors import BeingErased, Conflict, LakewardenError, NotFound, StorageUnavailable
from lakewarden.log.objects.place import Placing, Segment
from lakewarden.log.objects.segment import Chunk
from lakewarden.log.position import position_of, seq_of
from lakewarden.settings import LogSettings


@dataclass(frozen=True)
class Receipt:
    """What was appended. `last_seq` is the highest `_seq` that the call's rows were given."""

    rows: int
    last_seq: int


class PartlyAppended(StorageUnavailable):
    """A write of several segments failed half-way: some rows are acknowledged and there, the others are not known to be."""

    def __init__(self, message: str, rows: int, users: frozenset[str]) -> None:
        super().__init__(message)
        self.rows = rows
        """Acknowledged rows: the first ones of the call, if it is ordered by user."""
        self.users = users
        """Users all of whose rows were acknowledged."""


@dataclass(frozen=True)
class Parcel:
    """Chunks for one segment."""

    schema_version: int
    chunks: Sequence[Chunk]
    rows: int
    bytes: int


_LONG_SLEEP = timedelta(seconds=60)
"""Without an append; then it is seen to that the log is still the one that it was."""


def parcels_of(schema_version: int, chunks: Sequence[Chunk], settings: LogSettings) -> list[Parcel]:
    """Chunks in as few segments as the limits allow, in order. A chunk is never split here."""
    parcels: list[Parcel] = []
    start = rows = size = 0
    for index, chunk in enumerate(chunks):
        if index > start and not _fits(rows + chunk.rows, size + len(chunk.data), settings):
            parcels.append(Parcel(schema_version, chunks[start:index], rows, size))
            start, rows, size = index, 0, 0
        rows += chunk.rows
        size += len(chunk.data)
    if chunks:
        parcels.append(Parcel(schema_version, chunks[start:], rows, size))
    return parcels


def _fits(rows: int, size: int, settings: LogSettings) -> bool:
    return rows <= settings.segment_max_rows and size <= settings.segment_max_bytes


@dataclass(eq=False)
class _Call:
    parcels: Sequence[Parcel]
    after: int | None
    receipt: Receipt | None = None
    error: LakewardenError | None = None
    wake: threading.Event = field(default_factory=threading.Event)

    @property
    def shares(self) -> bool:
        return self.after is None and len(self.parcels) == 1

    @property
    def over(self) -> bool:
        return self.receipt is not None or self.error is not None


class Gathering:
    """Appends parcels for the threads of one process.

    `still_there` raises `NotFound` if the table was dropped. It is asked after a long sleep only: the seal of a dropped
    table's log says so too, and stays for longer than `HELD_AT_MOST`, but not for ever.
    """

    def __init__(
        self, placing: Placing, settings: LogSettings, clock: Clock, new_id: NewId, still_there: Callable[[], None]
    ) -> None:
        self._placing = placing
        self._settings = settings
        self._clock = clock
        self._new_id = new_id
        self._still_there = still_there
        self._seen = clock()
        self._lock = threading.Lock()
        self._waiting: deque[_Call] = deque()
        self._led = False

    def append(self, parcels: Sequence[Parcel], after: int | None = None) -> Receipt:
        """As `LogWriter.append`, for rows that are encoded already. There is at least one parcel."""
        call = _Call(parcels, after)
        with self._lock:
            self._waiting.append(call)
            follows, self._led = self._led, True
        if follows:
            call.wake.wait()
        if not call.over:
            self._lead()
        if call.receipt is None:
            raise call.error or _interrupted()
        return call.receipt

    def _lead(self) -> None:
        """Serves the first waiting calls, of which our own is the very first; then hands over."""
        group = self._next_group()
        try:
            self._serve(group)
        finally:
            # Also when the leader is interrupted: those who wait must not wait for ever.
            with self._lock:
                heir = self._waiting[0] if self._waiting else None
                self._led = heir is not None
            for call in group[1:]:
                call.error = call.error or (None if call.receipt else _interrupted())
                call.wake.set()
            if heir is not None:
                heir.wake.set()

    def _next_group(self) -> list[_Call]:
        with self._lock:
            group = [self._waiting.popleft()]
            first = group[0].parcels[0]
            rows, size = first.rows, first.bytes
            while group[0].shares and self._waiting and self._waiting[0].shares:
                parcel = self._waiting[0].parcels[0]
                rows, size = rows + parcel.rows, size + parcel.bytes
                if not _fits(rows, size, self._settings) or parcel.schema_version != first.schema_version:
                    break
                group.append(self._waiting.popleft())
        return group

    def _serve(self, group: list[_Call]) -> None:
        try:
            if group[0].shares:
                self._serve_shared(group)
            else:
                group[0].receipt = self._put_all(group[0])
        except (StorageUnavailable, Conflict, NotFound) as error:
            for call in _open(group):
                call.error = type(error)(error.message) if call is not group[0] else error
        except LakewardenError as error:
            for call in _open(group):
                call.error = error

    def _serve_shared(self, group: list[_Call]) -> None:
        while group:
            try:
                self._put_shared(group)
            except BeingErased as error:
                _refuse(group, error.users)
            group = _open(group)

    def _put_shared(self, group: list[_Call]) -> None:
        """One segment for all of them. Who was not seen to be closed before the put is told afterwards.

        Raises:
            BeingErased: nothing was put, for the sake of these users' calls.
        """
        chunks = [chunk for call in group for chunk in call.parcels[0].chunks]
        users = frozenset(chunk.user for chunk in chunks)
        position = self._put(group[0].parcels[0].schema_version, chunks, None)
        _refuse(group, self._placing.refused(users, position))
        ordinal = 0
        for call in group:
            rows = call.parcels[0].rows
            ordinal += rows
            if call.error is None:
                call.receipt = Receipt(rows, seq_of(position, ordinal - 1))

    def _put_all(self, call: _Call) -> Receipt:
        done, position, after = 0, 0, call.after
        for index, parcel in enumerate(call.parcels):
            users = frozenset(chunk.user for chunk in parcel.chunks)
            try:
                position = self._put(parcel.schema_version, parcel.chunks, after)
                if refused := self._placing.refused(users, position):
                    raise BeingErased(refused)
            except LakewardenError as error:
                if index == 0:
                    raise
                raise _half_way(call.parcels, index, error) from error
            done += parcel.rows
            after = None if after is None else position
        return Receipt(done, seq_of(position, call.parcels[-1].rows - 1))

    def _put(self, schema_version: int, chunks: Sequence[Chunk], after: int | None) -> int:
        put_id = self._new_id()
        began = self._clock()
        if began - self._seen > _LONG_SLEEP:
            self._placing.slept()
        if began - self._seen > HELD_AT_MOST:
            self._still_there()
        stored_at = to_micros(began)  # exactly: rows of STREAM tables expire by it
        position = self._placing.place(Segment.of(put_id, schema_version, stored_at, chunks), after)
        self._seen = self._clock()
        if self._seen - began > HELD_AT_MOST:
            self._still_there()
        return position


def _open(group: Sequence[_Call]) -> list[_Call]:
    return [call for call in group if not call.over]


def _refuse(group: Sequence[_Call], users: frozenset[str]) -> None:
    for call in group:
        own = users.intersection(chunk.user for chunk in call.parcels[0].chunks) if users else users
        if own:
            call.error = BeingErased(own)


def _half_way(parcels: Sequence[Parcel], index: int, error: LakewardenError) -> PartlyAppended:
    rows = sum(parcel.rows for parcel in parcels[:index])
    total = rows + sum(parcel.rows for parcel in parcels[index:])
    open_users = {chunk.user for parcel in parcels[index:] for chunk in parcel.chunks}
    users = frozenset(chunk.user for parcel in parcels[:index] for chunk in parcel.chunks) - open_users
    named = ", ".join(repr(user) for user in sorted(users)[:5]) + (", …" if len(users) > 5 else "")
    whole = f"all those of {len(users)} users ({named})" if users else "of no user all"
    return PartlyAppended(f"{rows} of {total} rows were acknowledged, {whole}; then: {error.message}", rows, users)


def _interrupted() -> StorageUnavailable:
    return StorageUnavailable(
        "the thread that put the segment was interrupted: the rows may or may not have been taken; read before writing them again"
    )


def last_position(receipt: Receipt) -> int:
    """What a conditional append that follows this one has to name."""
    return position_of(receipt.last_seq)
