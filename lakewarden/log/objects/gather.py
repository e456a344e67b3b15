"""Group commit: calls that wait while a segment is being put share the next one.

The first caller leads: it puts a segment for itself and for whoever came meanwhile, then hands over to the first of
those that came during its put. There is no thread of its own, and a lone caller pays one lock. Before each put the leader lets
those come who have announced that they will append soon, for a short time at most.

A conditional call, which read before it writes, shares a segment with others that touch nothing of what it read; and it may
come behind such puts of this process. Another process's put is a conflict, whatever is in it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from math import inf

from lakewarden.base.clock import HELD_AT_MOST, Clock, NewId, to_micros
from lakewarden.base.setting_sections import LogSettings
from lakewarden.errors import BeingErased, Conflict, LakewardenError, NotFound, SchemaChanged, StorageUnavailable
from lakewarden.log.chunk import Chunk
from lakewarden.log.crowd import Crowd
from lakewarden.log.objects.group import AppendCall, Group, Parcel, fits, laid_out
from lakewarden.log.objects.header import NO_KEYS
from lakewarden.log.objects.put import Puts, Segment
from lakewarden.log.position import PartlyAppended, Receipt, seq_of
from lakewarden.log.touches import ANYTHING, OwnPuts, Touched

_LONG_SLEEP = timedelta(seconds=60)
"""Without an append; then it is seen to that the log is still the one that it was."""


class Gathering:
    """Appends parcels for the threads of one process.

    `still_there` raises `NotFound` if the table was dropped. It is called after a long sleep only: the seal of a dropped
    table's log says so too, and stays for longer than `HELD_AT_MOST`, but not for ever.
    """

    def __init__(self, puts: Puts, settings: LogSettings, clock: Clock, new_id: NewId, still_there: Callable[[], None]) -> None:
        self._puts = puts
        self._settings = settings
        self._clock = clock
        self._new_id = new_id
        self._still_there = still_there
        self._seen = clock()
        self._doubted = False
        self._own = OwnPuts()
        self._lock = threading.Lock()
        self._waiting: deque[AppendCall] = deque()
        self._led = False
        self._announced: set[int] = set()
        """Threads that will append soon."""
        self._expected: set[int] = set()
        """Those of them that the leader waits for."""
        self._gathered = threading.Condition(self._lock)

    @contextmanager
    def announced(self) -> Iterator[None]:
        """As `TableLog.announced`."""
        thread = threading.get_ident()
        with self._lock:
            self._announced.add(thread)
        try:
            yield
        finally:
            with self._lock:
                self._arrived(thread)

    def _arrived(self, thread: int) -> None:
        """The thread has come, or never will."""
        self._announced.discard(thread)
        if self._expected:
            self._expected.discard(thread)
            if self._is_gathered():
                self._gathered.notify()

    def append(self, parcels: Sequence[Parcel], after: int | None = None, keys: Touched | None = None) -> Receipt:
        """As `LogWriter.append`, for rows that are encoded already. There is at least one parcel."""
        # Made by the calling thread: it takes along the key, the deadline and the token that this thread carries.
        call = AppendCall(parcels, after, keys if keys is not None else _all_rows_of(parcels, after))
        with self._lock:
            self._waiting.append(call)
            if self._announced:
                self._arrived(threading.get_ident())
            # Whoever finds no leader becomes it, in the same hold of the lock: there is never a waiting call without one.
            follows, self._led = self._led, True
            if follows:
                call.wake.acquire()
        if follows:
            call.wake.acquire()
        # Woken without a result: the lead was handed over.
        if not call.over:
            self._lead(call)
        if call.receipt is None:
            raise call.error or _interrupted()
        return call.receipt

    def look_again(self) -> None:
        """The next append looks at the log as a new process would."""
        self._doubted = True

    def _lead(self, own: AppendCall) -> None:
        """Serves the first waiting calls, of which our own is the very first; then hands over."""
        group: Group | None = None
        try:
            self._let_come()
            group = self._next_group()
            self._serve(group)
        finally:
            # Also when the leader is interrupted: those who wait must not wait for ever.
            with self._lock:
                if group is None:
                    self._waiting.remove(own)
                # The lead goes on before the others are woken, so that no call that comes now finds the log without a leader.
                heir = self._waiting[0] if self._waiting else None
                self._led = heir is not None
            # A call without a receipt or an error may have been in the segment that was being put.
            for call in group.calls[1:] if group is not None else ():
                call.error = call.error or (None if call.receipt else _interrupted())
                call.wake.release()
            if heir is not None:
                heir.wake.release()

    def _let_come(self) -> None:
        """Waits for those who are announced now; not for who comes after them, or a busy log would always wait to the end."""
        if not self._announced:
            return
        with self._lock:
            self._expected = set(self._announced)
            try:
                self._gathered.wait_for(self._is_gathered, self._settings.gather_seconds)
            finally:
                self._expected = set()

    def _is_gathered(self) -> bool:
        """Whether all have come that are waited for, or as many as a segment takes."""
        if not self._expected:
            return True
        first = [call.parcels[0] for call in self._waiting]
        return not fits(sum(each.rows for each in first), sum(each.bytes for each in first), self._settings)

    def _next_group(self) -> Group:
        with self._lock:
            group = Group(self._waiting.popleft(), self._own, self._settings)
            # Only from the front: a call that does not fit keeps its turn, and those behind it wait.
            while self._waiting and group.takes(self._waiting[0]):
                self._waiting.popleft()
        return group

    def _serve(self, group: Group) -> None:
        try:
            if group.calls[0].shares:
                self._serve_shared(group)
            else:
                group.calls[0].receipt = self._put_all(group.calls[0], group.after)
        except (StorageUnavailable, Conflict, NotFound, SchemaChanged) as error:
            for call in _open(group.calls):
                call.error = type(error)(error.message) if call is not group.calls[0] else error
        except LakewardenError as error:
            for call in _open(group.calls):
                call.error = error

    def _serve_shared(self, group: Group) -> None:
        calls = group.calls
        while calls:
            try:
                self._put_shared(calls, group)
            # Each round refuses at least one call, whose user is being erased; the others are put without it.
            except BeingErased as error:
                _refuse(calls, error.users)
                calls = _open(calls)
            else:
                return

    def _put_shared(self, calls: Sequence[AppendCall], group: Group) -> None:
        """One segment for all of them. Who was not seen to be closed before the put is refused afterwards.

        Raises:
            BeingErased: nothing was put, for the sake of these users' calls.
        """
        chunks, lasts = laid_out([call.parcels[0] for call in calls])
        segment = self._segment(calls[0].parcels[0].schema_version, chunks, _keys_of(calls))
        position = self._put(segment, group.after, calls[0].until if len(calls) == 1 else min([call.until for call in calls]))
        self._own.made(position, group.touched)
        # Behind the put, whose look at the cuts is newer: for a user who was closed in between the rows go with the erasure.
        _refuse(calls, self._puts.refused(segment.users, position))
        for call, last in zip(calls, lasts, strict=True):
            if call.error is None:
                call.receipt = Receipt(call.parcels[0].rows, seq_of(position, last))

    def _put_all(self, call: AppendCall, after: int | None) -> Receipt:
        done, position = 0, 0
        for index, parcel in enumerate(call.parcels):
            try:
                segment = self._segment_of(parcel, call.keys(index))
                position = self._put(segment if call.token is None else segment._replace(token=call.token), after, call.until)
                self._own.made(position, call.touched)
                if refused := self._puts.refused(parcel.users, position):
                    raise BeingErased(refused)
            except LakewardenError as error:
                # Nothing was put yet, so the error says all by itself.
                if index == 0:
                    raise
                raise _half_way(call.parcels, index, error) from error
            done += parcel.rows
            # The call's own segments come directly behind each other; another's between them is a conflict.
            after = None if after is None else position
        return Receipt(done, seq_of(position, call.parcels[-1].rows - 1))

    def _segment_of(self, parcel: Parcel, keys: Mapping[str, int]) -> Segment:
        """Raises StorageUnavailable: the parcel was staged too long ago to be named."""
        if parcel.staged is None:
            return self._segment(parcel.schema_version, parcel.encoded, keys)
        # Cleanups remove an unnamed batch after two days. A day less leaves room for a put that sleeps.
        if to_micros(self._clock() - HELD_AT_MOST) > parcel.staged.stored_at:
            raise StorageUnavailable(
                "the rows were staged more than a day ago, and may be gone: nothing was written; write them again"
            )
        return parcel.staged.segment(keys)

    def _segment(self, schema_version: int, chunks: Sequence[Chunk], keys: Mapping[str, int]) -> Segment:
        put_id, stored_at = self._new_id(), to_micros(self._clock())  # exactly: rows of STREAM tables expire by it
        return Segment.of(put_id, schema_version, stored_at, chunks, keys)

    def _put(self, segment: Segment, after: int | None, until: float) -> int:
        began = self._clock()
        # In that time others may have lost segments, or the state may have come from a backup
        # (docs/decisions/0018-links-and-lost-positions.md).
        if self._doubted or began - self._seen > _LONG_SLEEP:
            self._doubted = False
            self._puts.slept()
        # A dropped table's seal is swept after a week, and then nothing in the log refuses the rows
        # (docs/decisions/0006-fences.md).
        if began - self._seen > HELD_AT_MOST:
            self._still_there()
        position = self._puts.put(segment if until == inf else segment._replace(until=until), after)
        self._seen = self._clock()
        # Again behind the put, which may itself have slept beyond the seal.
        if self._seen - began > HELD_AT_MOST:
            self._still_there()
        return position


def _all_rows_of(parcels: Sequence[Parcel], after: int | None) -> Touched:
    if after is None and isinstance(parcels[0].chunks, Crowd):
        return ANYTHING  # by name, a million users take a hundred megabytes
    return {user: None for parcel in parcels for user in parcel.users}


def _keys_of(calls: Sequence[AppendCall]) -> Mapping[str, int]:
    """What a segment of all of them carries."""
    keyed = [call for call in calls if call.key]
    return {key: rows for call in keyed for key, rows in call.keys().items()} if keyed else NO_KEYS


def _open(group: Sequence[AppendCall]) -> list[AppendCall]:
    return [call for call in group if not call.over]


def _refuse(group: Sequence[AppendCall], users: frozenset[str]) -> None:
    for call in group:
        own = users & call.parcels[0].users if users else users
        if own:
            call.error = BeingErased(own)


def _half_way(parcels: Sequence[Parcel], index: int, error: LakewardenError) -> PartlyAppended:
    rows = sum(parcel.rows for parcel in parcels[:index])
    total = rows + sum(parcel.rows for parcel in parcels[index:])
    # A user whose rows continue in a later segment is not done.
    open_users = {user for parcel in parcels[index:] for user in parcel.users}
    users = frozenset(user for parcel in parcels[:index] for user in parcel.users) - open_users
    named = ", ".join(repr(user) for user in sorted(users)[:5]) + (", …" if len(users) > 5 else "")
    whole = f"all those of {len(users)} users ({named})" if users else "of no user all"
    return PartlyAppended(f"{rows} of {total} rows were acknowledged, {whole}; then: {error.message}", rows, users)


def _interrupted() -> StorageUnavailable:
    return StorageUnavailable(
        "the thread that put the segment was interrupted: the rows may or may not have been taken; read before writing them again"
    )
