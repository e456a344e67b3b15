"""The append protocol for one segment: take the next position, look at the cuts, and only then call it appended.

Nothing here knows of rows. One `Placing` belongs to one process and is used by one thread at a time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from lakewarden.errors import BeingErased, Conflict, NotFound, StorageRefused, StorageUnavailable
from lakewarden.faults import Reach, no_faults
from lakewarden.log import names
from lakewarden.log.cut import Cut, newest_cut
from lakewarden.log.position import LAST_POSITION
from lakewarden.log.segment import read_put_id
from lakewarden.storage.objects import AlreadyThere, Missing, ObjectStore

PROBES = 8
"""Positions found taken, one after the other, before the log is listed instead. Who has not looked at the cuts since some
moment tries none that lies further than this beyond the last one that was taken then."""

_LOST_RACES = 10_000
"""Others' appends that one append lets pass; each of them got a position, so this is far beyond any contention."""

_WAITS = (0.0, 0.02, 0.1, 0.5, 2.0)
"""Seconds before each look for a put whose answer was lost; then the outcome is called unknown."""


Mark = Callable[[str], str]
"""The keyed hash by which a cut names a user who is being erased."""


class _Fate(Enum):
    MADE = "our segment is at the position"
    LOST = "the position was another's, or was settled before our put: our rows were not seen"
    SETTLED = "our segment was settled: it is appended"


@dataclass(frozen=True)
class Segment:
    """A segment's bytes, and the unique id of its put in them. The same bytes do for any position."""

    put_id: str
    data: bytes
    users: frozenset[str]
    """Whose rows are in it."""


class Placing:
    """Puts segments at a partition's positions, and remembers where the next one may be."""

    def __init__(
        self,
        store: ObjectStore,
        log_id: str,
        mark: Mark,
        *,
        pause: Callable[[float], None] = time.sleep,
        reach: Reach = no_faults,
    ) -> None:
        self._store = store
        self._log_id = log_id
        self._mark = mark
        self._pause = pause
        self._reach = reach
        self._next: int | None = None
        """After a position that was taken before the last look at the cuts; None when it is not known."""
        self._cut = Cut()

    def place(self, segment: Segment, after: int | None = None) -> int:
        """Makes the segment durable at the next position, or exactly at the one following `after`; returns which.

        Raises:
            Conflict: `after` was given and is not the last position any more.
            BeingErased: some of the users are being erased, or were meanwhile; nothing was appended.
            NotFound: the partition is sealed: its table was dropped.
            StorageUnavailable: the store failed; the message says so if the rows may have been taken all the same.
        """
        self._not_sealed(self._cut)
        # A call that fails leaves nothing: to go on from where it stopped would be to go on without a look.
        known, self._next = self._next, None
        looked = False
        for attempt in range(_LOST_RACES):
            listed = known is None or (attempt > 0 and attempt % PROBES == 0)
            looked = looked or listed
            position = self._choose(None if listed else known, after)
            if position > LAST_POSITION:  # a seal's end was read through
                raise self._sealed()
            self._admit(segment, None)
            if self._append_at(position, segment):
                self._next = max(position, self._cut.upto) + 1
                return position
            # Who chose the position in an earlier call may have begun this one after an erasure that it has not seen.
            self._admit(segment, position if looked else None)
            if after is not None:
                raise Conflict(f"log {self._log_id}: another write came after position {after}, which was read; read again")
            known = max(position, self._cut.upto) + 1
        raise Conflict(f"log {self._log_id}: {_LOST_RACES} positions were taken by others, one after the other; try again")

    def refused(self, users: frozenset[str], position: int | None) -> frozenset[str]:
        """Those of the users who are closed, as the last look saw it, or whose rows up to the position were left out."""
        late = set() if position is None else {user for user, upto in self._cut.erased.items() if upto >= position}
        gone = late.union(self._cut.closed)
        return frozenset(user for user in users if self._mark(user) in gone) if gone else frozenset()

    def _admit(self, segment: Segment, position: int | None) -> None:
        if self.refused(segment.users, position):
            self._cut = self._not_sealed(newest_cut(self._store, self._log_id, self._cut))  # they may be open again
            if refused := self.refused(segment.users, position):
                raise BeingErased(refused)

    def _choose(self, known: int | None, after: int | None) -> int:
        if after is not None:
            # What was read through may lie beyond a cut that this writer has not seen.
            self._cut = self._not_sealed(newest_cut(self._store, self._log_id, self._cut))
            return after + 1
        return self._free_position() if known is None else known

    def _free_position(self) -> int:
        """In this order: who sees a segment that was put after some cut sees that cut as well."""
        found = names.listings(each.key for each in self._store.list(names.segments(self._log_id)))
        self._cut = self._not_sealed(newest_cut(self._store, self._log_id, self._cut))
        last = found[self._log_id].last_position if found else self._cut.upto
        return max(last, self._cut.upto) + 1

    def _append_at(self, position: int, segment: Segment) -> bool:
        """Whether the segment is appended at the position; if not, nobody has seen it there and nobody will."""
        fate = self._put(position, segment)
        self._reach("append:put")
        if fate is _Fate.MADE:
            fate = self._look(position, segment)
        self._reach("append:looked")
        if fate is _Fate.SETTLED:
            return True
        return fate is _Fate.MADE

    def _put(self, position: int, segment: Segment) -> _Fate:
        try:
            self._store.create(names.segment_key(self._log_id, position), segment.data)
        except AlreadyThere:
            return _Fate.LOST
        except StorageUnavailable as error:
            return self._find_out(position, segment, error)
        return _Fate.MADE

    def _find_out(self, position: int, segment: Segment, error: StorageUnavailable) -> _Fate:
        """The put's answer was lost, so it may have happened. To move on before that is known could append twice."""
        for wait in _WAITS:
            self._pause(wait)
            try:
                fate = self._trace(position, segment)
                if fate is not None:
                    return fate
                self._store.create(names.segment_key(self._log_id, position), segment.data)
                return _Fate.MADE
            except AlreadyThere:
                continue  # by now it is there, and the next look tells whose it is
            except StorageUnavailable as again:
                error = again
        raise self._unknown(position, error.message) from error

    def _trace(self, position: int, segment: Segment) -> _Fate | None:
        """What became of a put, None if there is no trace of it."""
        try:
            found = read_put_id(self._store, names.segment_key(self._log_id, position))
        except Missing:
            found = None
        # Only now: had the position been settled before the read, what was read there came too late, and says nothing.
        self._cut = newest_cut(self._store, self._log_id, self._cut)
        if self._cut.covers(position):
            return self._verdict(position, segment)
        if found is None:
            return None
        return _Fate.MADE if found == segment.put_id else _Fate.LOST

    def _look(self, position: int, segment: Segment) -> _Fate:
        """Whether the position was settled: before our put (it came too late and will never be read), or with it."""
        try:
            self._cut = newest_cut(self._store, self._log_id, self._cut)
        except StorageUnavailable as error:
            return self._find_out(position, segment, error)
        except StorageRefused as error:
            raise self._unknown(position, error.message) from error
        return self._verdict(position, segment) if self._cut.covers(position) else _Fate.MADE

    def _verdict(self, position: int, segment: Segment) -> _Fate:
        took = None if self._cut.sealed else self._cut.took(position, segment.put_id)
        if took:
            return _Fate.SETTLED
        self._remove(position)
        self._not_sealed(self._cut)
        if took is None:
            raise self._unknown(position, "the position was settled long ago")
        return _Fate.LOST

    def _remove(self, position: int) -> None:
        try:
            self._store.delete([names.segment_key(self._log_id, position)])
        except StorageUnavailable:
            return  # every cleanup removes what lies at settled positions

    def _not_sealed(self, cut: Cut) -> Cut:
        if cut.sealed:
            raise self._sealed()
        return cut

    def _sealed(self) -> NotFound:
        return NotFound(f"log {self._log_id} is sealed: its table was dropped, and what is written to it with it")

    def _unknown(self, position: int, why: str) -> StorageUnavailable:
        return StorageUnavailable(
            f"the rows may or may not have been taken at position {position} of log {self._log_id}: {why}; "
            "read before writing them again"
        )
