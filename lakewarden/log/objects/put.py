"""The append protocol for one segment: take the next position, read the cuts, and only then acknowledge.

Nothing here knows of rows. One `Puts` belongs to one process and is used by one thread at a time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from math import inf
from typing import NamedTuple, Protocol

from lakewarden.base.faults import Reach, no_faults
from lakewarden.base.write_key import WITHIN_SECONDS
from lakewarden.errors import (
    BeingErased,
    Conflict,
    Corrupt,
    LakewardenError,
    NotDurable,
    NotFound,
    SchemaChanged,
    StorageRefused,
    StorageUnavailable,
)
from lakewarden.log.chunk import Chunk
from lakewarden.log.crowd import names_in, rows_in
from lakewarden.log.objects import names
from lakewarden.log.objects.cache import HeaderCache
from lakewarden.log.objects.cut import LogCut, newest_cut
from lakewarden.log.objects.header import NO_KEYS
from lakewarden.log.objects.links import Links
from lakewarden.log.objects.pack import INDEXED, pack_segment
from lakewarden.log.objects.run import check_whole
from lakewarden.log.objects.segment import own_segment, read_put_id
from lakewarden.log.once import check_fence
from lakewarden.log.position import LAST_POSITION
from lakewarden.log.view import Mark
from lakewarden.storage.objects import AlreadyThere, Missing, ObjectStore

PROBES = 8
"""Positions found taken, one after the other, before the log is listed instead. Who has not looked at the cuts since some
moment tries none that is further than this beyond the last one that was taken then."""

_LOST_RACES = 10_000
"""Others' appends that one append lets pass; each of them got a position, so this is far beyond any contention."""

_WAITS = (0.0, 0.02, 0.1, 0.5, 2.0)
"""Seconds before each look for a put whose answer was lost; then the outcome is called unknown."""


# An append ends in one of three ways. An outcome that is not known is an error, and none of these.
class _Fate(Enum):
    MADE = "our segment is at the position"
    LOST = "the position was another's, or was settled before our put: our rows were not seen"
    SETTLED = "our segment was settled: it is appended"


@dataclass(frozen=True)
class WriterTerms:
    """What a warehouse knows besides its log, for its writers."""

    segment_format: int = INDEXED
    headers: HeaderCache | None = None
    """Those that this process has read, or put where `keeps_own`."""
    keeps_own: bool = False
    floor: Callable[[], int | None] = lambda: None
    """The last position that the table's storage knows to be settled; None where that is unknown."""
    still_there: Callable[[], None] = lambda: None
    """Raises `NotFound` if the table was dropped."""
    pause: Callable[[float], None] = time.sleep
    reach: Reach = no_faults


class PackSegment(Protocol):
    def __call__(self, *, after: str, segment_format: int) -> bytes: ...


class Segment(NamedTuple):
    """A segment that waits for a position: the unique id of its put, and its bytes as they follow from the one before.

    A tuple, because every write creates one.
    """

    put_id: str
    pack: PackSegment
    users: frozenset[str]
    """Whose rows are in it."""
    rows: int
    since: int | None = None
    """The last position that was taken before its rows were staged: an erasure since then removed those of its user."""
    closed: tuple[str, ...] = ()
    """As in `Staging`."""
    schema_version: int | None = None
    """Of its rows; None where there are none."""

    until: float = inf
    """By the monotonic clock: no put is begun later (`write_key`)."""
    token: int | None = None
    """Of the stream that writes it (`log.once`)."""
    whole: bool = True
    """Whether the staged objects are there that it names."""

    @classmethod
    def of(
        cls, put_id: str, schema_version: int, stored_at: int, chunks: Sequence[Chunk], keys: Mapping[str, int] = NO_KEYS
    ) -> Segment:
        """As `pack_segment`."""
        users = frozenset(names_in(chunks))
        pack = partial(pack_segment, put_id, schema_version, stored_at, chunks, keys=keys)
        return cls(put_id, pack, users, rows_in(chunks), schema_version=schema_version if chunks else None)


class _Put(NamedTuple):
    put_id: str
    data: bytes


class Puts:
    """Puts segments at a partition's positions, and remembers where the next one may be."""

    def __init__(
        self,
        store: ObjectStore,
        log_id: str,
        mark: Mark,
        terms: WriterTerms,
    ) -> None:
        self._store = store
        self._log_id = log_id
        self._mark = mark
        self._format = terms.segment_format
        self._links = Links(store, log_id, terms.headers, terms.segment_format)
        self._own = terms.headers if terms.keeps_own else None
        self._floor = terms.floor
        self._pause = terms.pause
        self._reach = terms.reach
        self._next: int | None = None
        """After a position that was taken before the last look at the cuts; None when it is not known."""
        self._cut = LogCut()
        self._awake = False
        """Whether the floor was compared since this writer began, or slept for long."""

    def slept(self) -> None:
        """After a long sleep the warehouse may be another one, restored from a backup: what was seen before is forgotten."""
        self._next, self._awake = None, False

    def put(self, segment: Segment, after: int | None = None) -> int:
        """Makes the segment durable at the next position, or exactly at the one following `after`; returns which.

        Raises:
            Conflict: `after` was given and is not the last position any more.
            BeingErased: some of the users are being erased, or were meanwhile; nothing was appended.
            SchemaChanged: the table was altered since the rows were made; nothing was appended.
            LostPlace: another stream took over; nothing was appended.
            NotFound: the partition is sealed: its table was dropped.
            Corrupt: positions of the log are lost, or the log ends below what the table's storage knows to be settled.
            StorageUnavailable: the store failed; the message says so if the rows may have been taken all the same.
        """
        self._not_sealed(self._cut)
        # A call that fails leaves nothing: to go on from where it stopped would be to go on without a look.
        known, self._next = self._next, None
        floor = None if self._awake else self._floor()  # first: what is settled by now, the look at the log shows
        looked, lost = False, None
        for attempt in range(_LOST_RACES):
            # An erasure fills PROBES positions behind the last one taken and no more: a writer that probed on without a listing
            # could put rows behind them.
            listed = known is None or (attempt > 0 and attempt % PROBES == 0)
            looked = looked or listed
            position = self._choose(None if listed else known, after)
            # Before the put: a segment below the floor would be acknowledged, and every flush would take its rows for settled.
            self._check_floor(floor, position)
            if position > LAST_POSITION:  # a seal's end was read through
                raise self._sealed()
            self._admit(segment, lost)
            # Behind the choice of the position. Who looks for the key later takes the next position, so a put that was chosen
            # before that is found, or finds its place taken (docs/decisions/0105-a-write-carries-its-key.md).
            if segment.until < time.monotonic():
                raise Conflict(f"the write took more than {WITHIN_SECONDS:.0f} seconds, and was not done; try again")
            if self._append_at(position, segment):
                # Only now: after an error the next call lists the log.
                self._next = self._beyond(position)
                # The next segment of this writer then names this one without a request.
                self._links.made(position, segment.put_id, segment.rows)
                self._awake = True
                return position
            # Who chose the position in an earlier call may have begun this one after an erasure that it has not seen.
            lost = position if looked else None
            if after is not None:
                # A conditional append probes no further: behind the other write, what was read may be wrong.
                raise Conflict(f"log {self._log_id}: another write came after position {after}, which was read; read again")
            known = self._beyond(position)
        raise Conflict(f"log {self._log_id}: {_LOST_RACES} positions were taken by others, one after the other; try again")

    def refused(self, users: frozenset[str], position: int | None) -> frozenset[str]:
        """Those of the users who are closed, as the last look saw it, or whose rows up to the position were left out."""
        # The cut still says up to where an erased user's rows were left out when the user is open again: a put that slept
        # through all of it is below.
        late = set() if position is None else {user for user, upto in self._cut.erased.items() if upto >= position}
        gone = late.union(self._cut.closed)
        return frozenset(user for user in users if self._mark(user) in gone) if gone else frozenset()

    def _admit(self, segment: Segment, position: int | None) -> None:
        # Matched by column id, older rows would bring NULL into a column that has become NOT NULL, and values of dropped
        # columns (docs/decisions/0106-rows-of-older-columns.md).
        if segment.schema_version is not None and segment.schema_version < self._cut.columns:
            raise SchemaChanged(
                f"the rows have the columns of schema version {segment.schema_version}, and log {self._log_id} takes those of"
                f" version {self._cut.columns} now: the table was altered meanwhile; nothing was written, try again"
            )
        check_fence(self._cut.fence, segment.token)
        # An erasure takes its positions first and removes what is staged after that: a batch begun in between is refused by who
        # was closed then (docs/decisions/0073-batches-begun-during-an-erasure.md).
        if segment.closed and (closed := frozenset(user for user in segment.users if self._mark(user) in segment.closed)):
            raise BeingErased(closed)  # open again perhaps, but what was staged is gone
        if segment.since is not None:  # not above a position that was lost since
            # Staged before any position of ours was lost: an erasure of the user since then has removed the objects that the
            # segment would name.
            position = segment.since + 1
            # A cut remembers a bounded number of erasures. Older ones than that cannot be excluded, so the whole batch is
            # refused.
            if self._cut.may_have_erased(segment.since):
                raise StorageUnavailable("many users were erased since the rows were staged: nothing was written; write again")
        # A refusal by an older cut is not proof; an acceptance by one is caught by the look behind the put.
        if self.refused(segment.users, position):
            self._cut = self._not_sealed(newest_cut(self._store, self._log_id, self._cut))  # they may be open again
            if refused := self.refused(segment.users, position):
                raise BeingErased(refused)
        # Behind the erasures, which remove what is staged: a cut remembers the last puts alone, so a batch that was settled long
        # ago looks like one that was never published.
        if not segment.whole:
            raise StorageUnavailable(
                "what was staged is gone: it was published and flushed before, or given up; nothing was written now, read before"
                " writing the rows again"
            )

    def _choose(self, known: int | None, after: int | None) -> int:
        if after is not None:
            # What was read through may lie beyond a cut that this writer has not seen.
            self._cut = self._not_sealed(newest_cut(self._store, self._log_id, self._cut))
            return after + 1
        return self._free_position() if known is None else known

    def _free_position(self) -> int:
        """In this order: who sees a segment that was put after some cut sees that cut as well."""
        found = names.listing_of(self._log_id, self._store.keys(names.segments(self._log_id)))
        self._cut = self._not_sealed(newest_cut(self._store, self._log_id, self._cut))
        # A segment that is put into a gap would be acknowledged, and hide that the one before it is lost
        # (docs/decisions/0018-links-and-lost-positions.md).
        check_whole(self._store, self._log_id, found, self._cut)
        return self._beyond(found.last_position)

    def _beyond(self, position: int) -> int:
        # Positions that a repair gave up count as taken: nothing is put there again.
        return max(position, self._cut.last_taken) + 1

    def _check_floor(self, floor: int | None, position: int) -> None:
        if floor is None or floor < position:
            return
        last = self._free_position() - 1  # what a conditional append has read may be old
        if last < floor:
            raise Corrupt(
                f"log {self._log_id} of {self._store.uri} ends at position {last}, and the table's storage holds rows up to"
                f" position {floor}: the warehouse's state is older than its data, as after a restore from a backup; nothing was"
                " written. `lakewarden repair --restored` makes the two agree"
            )

    def _append_at(self, position: int, segment: Segment) -> bool:
        """Whether the segment is appended at the position; if not, no reader has seen it there and none will."""
        # The link depends on the position, so the segment is packed anew for each try.
        after = self._links.before(position, self._cut)
        put = _Put(segment.put_id, segment.pack(after=after, segment_format=self._format))
        # First the put, then the look: a cut that settled the position before the put made its rows invisible, and only a look
        # behind the put is sure to see it.
        fate = self._create(position, put)
        self._reach("append:put")
        if fate is _Fate.MADE:
            fate = self._look(position, put)
        self._reach("append:looked")
        if fate is _Fate.MADE:
            # Behind the look alone: who lost the race for the position would take its own rows for the winner's
            # (docs/decisions/0038-what-a-flush-job-requests.md).
            self._keep(position, put)
        return fate is not _Fate.LOST

    def _keep(self, position: int, put: _Put) -> None:
        """Spares a reader in this process the read: what is at a position that counts stays the same until it is settled."""
        if self._own is not None and (header := own_segment(names.segment_key(self._log_id, position), position, put.data)):
            self._own.keep_own(header)

    def _create(self, position: int, put: _Put) -> _Fate:
        try:
            self._store.create(names.segment_key(self._log_id, position), put.data)
        # The store compares ids (storage/remote.py), so this is another's object, and never our own from a repeated request
        # (docs/decisions/0109-a-created-object-has-an-id.md).
        except AlreadyThere:
            return _Fate.LOST
        # The object can be read, yet a crash may take it back: it counts neither as appended nor as absent
        # (docs/decisions/0018-links-and-lost-positions.md).
        except NotDurable as error:
            raise self._unknown(position, error) from error
        except StorageUnavailable as error:
            return self._find_out(position, put, error)
        return _Fate.MADE

    def _find_out(self, position: int, put: _Put, error: StorageUnavailable) -> _Fate:
        """The put's answer was lost, so it may have happened. To move on before that is known could append twice."""
        for wait in _WAITS:
            self._pause(wait)
            try:
                fate = self._trace(position, put)
                if fate is _Fate.MADE:  # by us, or by the system after it had reported a failure
                    self._store.confirm(names.segment_key(self._log_id, position))
                if fate is not None:
                    return fate
                self._store.create(names.segment_key(self._log_id, position), put.data)
                return _Fate.MADE
            except NotDurable as failed:
                raise self._unknown(position, failed) from failed
            except (AlreadyThere, Missing):
                continue  # by now it is there, and the next look tells whose it is
            except StorageUnavailable as again:
                error = again
        raise self._unknown(position, error) from error

    def _trace(self, position: int, put: _Put) -> _Fate | None:
        """What became of a put, None if there is no trace of it."""
        try:
            found = read_put_id(self._store, names.segment_key(self._log_id, position))
        except Missing:
            found = None
        # Only now: had the position been settled before the read, what was read there came too late, and says nothing.
        self._cut = newest_cut(self._store, self._log_id, self._cut)
        if self._cut.covers(position):
            return self._verdict(position, put)
        if found is None:
            return None
        return _Fate.MADE if found == put.put_id else _Fate.LOST

    def _look(self, position: int, put: _Put) -> _Fate:
        """Whether the position was settled: before our put (it came too late and will never be read), or with it."""
        try:
            self._cut = newest_cut(self._store, self._log_id, self._cut)
        except StorageUnavailable as error:
            return self._find_out(position, put, error)
        # The look was refused, but the segment is there: the rows may be taken, whatever the caller does.
        except StorageRefused as error:
            raise self._unknown(position, error) from error
        return self._verdict(position, put) if self._cut.covers(position) else _Fate.MADE

    def _verdict(self, position: int, put: _Put) -> _Fate:
        # A seal settles every position and remembers no puts.
        took = None if self._cut.sealed else self._cut.took(position, put.put_id)
        if took:
            return _Fate.SETTLED
        # No reader looks at a settled position; the object would be litter under a name that was used before.
        self._remove(position)
        self._not_sealed(self._cut)
        # Neither lost nor appended can be proved: to append again further up could write the rows twice.
        if took is None:
            raise self._unknown(position, StorageUnavailable("the position was settled long ago"))
        return _Fate.LOST

    def _remove(self, position: int) -> None:
        try:
            self._store.delete([names.segment_key(self._log_id, position)])
        except StorageUnavailable:
            return  # every cleanup removes what is at settled positions

    def _not_sealed(self, cut: LogCut) -> LogCut:
        if cut.sealed:
            raise self._sealed()
        return cut

    def _sealed(self) -> NotFound:
        return NotFound(f"log {self._log_id} is sealed: its table was dropped, and what is written to it with it")

    def _unknown(self, position: int, why: LakewardenError) -> StorageUnavailable:
        kind = NotDurable if isinstance(why, NotDurable) else StorageUnavailable
        return kind(
            f"the rows may or may not have been taken at position {position} of log {self._log_id}: {why.message}; "
            "read before writing them again"
        )
