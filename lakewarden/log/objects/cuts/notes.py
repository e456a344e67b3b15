"""What a log holds beside its rows: direct writes that are under way, altered columns, the newest stream, restores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from lakewarden.base.clock import Clock, NewId, to_millis
from lakewarden.log.objects import names
from lakewarden.log.objects.cut import EVERYBODY, LogCut
from lakewarden.log.objects.cuts.fill import fill
from lakewarden.log.objects.cuts.next_cut import advance
from lakewarden.log.objects.pack import INDEXED
from lakewarden.log.objects.put import Puts, Segment, WriterTerms
from lakewarden.log.view import Mark
from lakewarden.storage.objects import ObjectStore

# The store's time: the one clock that all processes of a log can read, by when an object was made there.
#
# A process learns once by how much its own clock differs, from a cut that it has just made. From then on it says what the store
# would say, up to a few seconds.

_TOLERATED = timedelta(seconds=30)
"""A smaller difference may be the time that a request takes."""


class StoreClock:
    """Safe for threads: who learns at the same time learns the same."""

    def __init__(self, store: ObjectStore, log_id: str, clock: Clock) -> None:
        self._store = store
        self._log_id = log_id
        self._clock = clock
        self._differs: timedelta | None = None

    def __call__(self) -> datetime:
        return self._clock() + (self._differs or timedelta())

    @property
    def differs(self) -> bool:
        """Whether it is known that the process's own clock is another one."""
        return bool(self._differs)

    @property
    def is_known(self) -> bool:
        return self._differs is not None

    def learn(self, version: int) -> None:
        """Compares the clocks, by a cut that this process has made just now; one that is gone already says nothing."""
        own, key = self._clock(), names.cut_key(self._log_id, version)
        # The cut was made a request or so before the clock is read here; `_TOLERATED` allows for that.
        made = next((each.modified for each in self._store.list(names.cuts(self._log_id)) if each.key == key), None)
        if made is not None:
            self._differs = made - own if abs(made - own) > _TOLERATED else timedelta()


_QUIET = timedelta(minutes=2)
"""A write that has not renewed its note for so long counts as dead. One that lives all the same is refused."""


def open_direct(store: ObjectStore, log_id: str, write_id: str, clock: StoreClock) -> bool:
    """As `TableLog.open_direct`."""
    # Before the note: what was taken by now is below every position that the write can get.
    found = [] if clock.is_known else store.list(names.home(log_id))
    keys = store.keys(names.segments(log_id)) if clock.is_known else [each.key for each in found]
    listed = names.listing_of(log_id, keys).last_position
    # A clock that was not compared yet may be behind, and another process take the note for one that went quiet before it is
    # renewed: by the store's time, it is not older than what is there.
    least = max((to_millis(each.modified) for each in found), default=0)

    def noted(cut: LogCut) -> LogCut | None:
        if cut.sealed or write_id in cut.direct:
            return None
        # The cut counts too: where everything was settled and removed, the listing shows no position.
        return replace(cut, direct={**cut.direct, write_id: (max(listed, cut.last_taken), max(least, to_millis(clock())))})

    cut = advance(store, log_id, noted)
    if not clock.is_known:
        clock.learn(cut.version)
        # The note was made by the wrong clock and could count as quiet at once (docs/decisions/0108-the-stores-time.md).
        if clock.differs:
            cut = renew_direct(store, log_id, write_id, clock(), back=True)
    return bool(quiet(cut, clock()))


def _touched(store: ObjectStore, log_id: str) -> int:
    """Makes a cut that says what the last one does; returns its version. Another's, made just then, will do."""
    before: list[int] = []

    def same(cut: LogCut) -> LogCut | None:
        # The first call sees the cut before; a newer one afterwards was made just now, by whomever, and will do.
        before.append(cut.version)
        return None if cut.sealed or cut.version > before[0] else cut

    return advance(store, log_id, same).version


def renew_direct(store: ObjectStore, log_id: str, write_id: str, now: datetime, *, back: bool = False) -> LogCut:
    """As `TableLog.renew_direct`.

    Args:
        back: also where the note has a later time, which was not the store's.
    """
    millis = to_millis(now)

    def renewed(cut: LogCut) -> LogCut | None:
        noted = cut.direct.get(write_id)
        # A note that was taken away is not made again: a barrier stands in its place, and the write must be refused.
        if noted is None or noted[1] == millis or (noted[1] > millis and not back):
            return None
        return replace(cut, direct={**cut.direct, write_id: (noted[0], millis)})

    return advance(store, log_id, renewed)


def replace_quiet(store: ObjectStore, log_id: str, barrier_id: str, clock: StoreClock) -> bool:
    """As `TableLog.replace_quiet`; the barrier is at the lowest of their positions."""
    if not clock.is_known:
        clock.learn(_touched(store, log_id))
    now = clock()

    def replaced(cut: LogCut) -> LogCut | None:
        gone = quiet(cut, now)
        if cut.sealed or not gone:
            return None
        # One cut takes the notes away and puts the barrier in their place: in between, readers of changes would pass the rows
        # that a quiet write may still commit.
        left = {id_: entry for id_, entry in cut.direct.items() if id_ not in gone}
        return replace(cut, direct=left | {barrier_id: (min(cut.direct[id_][0] for id_ in gone), to_millis(now))})

    return barrier_id in advance(store, log_id, replaced).direct


def close_direct(store: ObjectStore, log_id: str, write_id: str) -> None:
    """As `TableLog.close_direct`."""

    def forgotten(cut: LogCut) -> LogCut | None:
        # Each attempt of a statement notes itself under the statement's id.
        left = {id_: entry for id_, entry in cut.direct.items() if id_ != write_id and not id_.startswith(f"{write_id}/")}
        return None if len(left) == len(cut.direct) else replace(cut, direct=left)

    advance(store, log_id, forgotten)


def may_be_quiet(cut: LogCut, clock: StoreClock) -> bool:
    """As `TableLog.has_quiet`: as long as this process does not know the store's time, any write that is noted may be quiet."""
    return bool(quiet(cut, clock()) if clock.is_known else cut.direct)


def quiet(cut: LogCut, now: datetime) -> set[str]:
    """The noted writes that gave no sign of life for `_QUIET`."""
    return {id_ for id_, (_, renewed_at) in cut.direct.items() if renewed_at < to_millis(now - _QUIET)}


# Says in the log that the table was altered: no rows of older columns are appended any more.
#
# A cut names the oldest schema version whose rows are taken. Each append looks at the newest cut behind its put, so its next
# one knows. A writer who has not looked yet could still put rows at one of the few positions beyond the last one: these are
# filled, as where a user is closed (closing.py). What was put before that counts as written before the ALTER.


def require_columns(store: ObjectStore, log_id: str, version: int, new_id: NewId, segment_format: int) -> None:
    """As `TableLog.require_columns`."""

    def required(cut: LogCut) -> LogCut | None:
        return None if cut.sealed or cut.columns >= version else replace(cut, columns=version)

    # First the cut: a writer that finds these positions taken has to list the log, and then reads the version.
    if not advance(store, log_id, required).sealed:
        fill(store, log_id, new_id, segment_format)


# Says in the log which stream is the last that took the place of the table's streaming writer: earlier ones append nothing
# more.
#
# As where columns are required: a cut has the token. Where a stream may still be at work that was replaced, the
# positions are filled that it could take without another look at the cuts. Writes of others carry no token, and pass.


def raise_fence(store: ObjectStore, log_id: str, token: int, new_id: NewId, segment_format: int, *, replaces: bool) -> None:
    """As `TableLog.raise_fence`."""

    def raised(cut: LogCut) -> LogCut | None:
        return None if cut.sealed or cut.fence >= token else replace(cut, fence=token)

    # Where the place was given back no stream is at work under the old token, and eight positions are spared.
    if not advance(store, log_id, raised).sealed and replaces:
        fill(store, log_id, new_id, segment_format)


# Notes a restore in the log: it changes rows that subscribers have seen, but appends no rows.
_REMEMBERED = 1000
"""Earlier restores of users that a cut names. Who comes back to one that was forgotten has to subscribe anew."""


def take_position(store: ObjectStore, log_id: str, mark: Mark, new_id: NewId, *, segment_format: int = INDEXED) -> int:
    """Appends a segment without rows; its position.

    Raises:
        NotFound: the table was dropped.
        StorageUnavailable: the store failed.
    """
    # A put by the protocol of appends, so that it comes behind all that is there, and a seal refuses it.
    return Puts(store, log_id, mark, WriterTerms(segment_format)).put(Segment.of(new_id(), 1, 0, ()))


def note_rewound(store: ObjectStore, log_id: str, marks: Sequence[str], position: int) -> None:
    """As `TableLog.note_rewound`."""

    def noted(cut: LogCut) -> LogCut | None:
        if cut.sealed or all(cut.rewound.get(mark, -1) >= position for mark in marks):
            return None
        # Kept apart: it must not be pushed out by single users' restores.
        everybody = {mark: at for mark, at in cut.rewound.items() if mark == EVERYBODY}
        earlier = {mark: at for mark, at in cut.rewound.items() if mark not in (*marks, EVERYBODY)}
        return replace(cut, rewound=everybody | dict(list(earlier.items())[-_REMEMBERED:]) | dict.fromkeys(marks, position))

    advance(store, log_id, noted)
