"""Notes the direct writes that are under way: their rows will have numbers of a position that the log has passed by then.

A write is noted before it takes its position, and forgotten when it is in the table, or will never be. So whoever reads how far
the log goes, then the newest cut, and then the table, finds in the table every row of the writes that the cut does not note.

A write renews its note while it runs, and commits only while it is noted. A barrier takes the place of notes that went quiet
(tables/direct/barrier.py). How old a note is, the store's time says (store_clock.py): the clocks of processes may differ.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from lakewarden.base.clock import to_millis
from lakewarden.log.objects import names
from lakewarden.log.objects.cut import LogCut, newest_cut
from lakewarden.log.objects.cuts.advance import advance
from lakewarden.log.objects.store_clock import StoreClock
from lakewarden.log.table_log import HELD
from lakewarden.storage.objects import ObjectStore

_QUIET = timedelta(minutes=2)
"""A write that has not renewed its note for so long counts as dead. One that lives all the same is refused."""


def open_direct(store: ObjectStore, log_id: str, write_id: str, clock: StoreClock) -> bool:
    """Notes a write before it takes its position; returns whether others went quiet.

    Raises:
        Conflict, StorageUnavailable: try again.
    """
    listed = names.listing_of(log_id, store.keys(names.segments(log_id))).last_position

    def noted(cut: LogCut) -> LogCut | None:
        if cut.sealed or write_id in cut.direct:
            return None
        return replace(cut, direct={**cut.direct, write_id: (max(listed, cut.last_taken), to_millis(clock()))})

    cut = advance(store, log_id, noted)
    if not clock.is_known:
        clock.learn(cut.version)
        if clock.differs:
            cut = _renewed(store, log_id, write_id, clock(), back=True)
    return bool(quiet(cut, clock()))


def _touched(store: ObjectStore, log_id: str) -> int:
    """Makes a cut that says what the last one does; returns its version. Another's, made just then, will do."""
    before: list[int] = []

    def same(cut: LogCut) -> LogCut | None:
        before.append(cut.version)
        return None if cut.sealed or cut.version > before[0] else cut

    return advance(store, log_id, same).version


def renew_direct(store: ObjectStore, log_id: str, write_id: str, now: datetime) -> None:
    """Says that a write is still under way. Raises as `open_direct`."""
    _renewed(store, log_id, write_id, now)


def _renewed(store: ObjectStore, log_id: str, write_id: str, now: datetime, *, back: bool = False) -> LogCut:
    """
    Args:
        back: also where the note has a later time, which was not the store's.
    """
    millis = to_millis(now)

    def renewed(cut: LogCut) -> LogCut | None:
        noted = cut.direct.get(write_id)
        if noted is None or noted[1] == millis or (noted[1] > millis and not back):
            return None
        return replace(cut, direct={**cut.direct, write_id: (noted[0], millis)})

    return advance(store, log_id, renewed)


def is_held(store: ObjectStore, log_id: str) -> bool:
    """Whether one of the noted writes is about to commit rows that others would read. Raises as `is_noted`."""
    return any(id_.startswith(HELD) for id_ in newest_cut(store, log_id).direct)


def is_noted(store: ObjectStore, log_id: str, write_id: str) -> bool:
    """Whether a write is still noted: without that, it may not commit. Raises `Conflict`, `StorageUnavailable`: try again."""
    return write_id in newest_cut(store, log_id).direct


def replace_quiet(store: ObjectStore, log_id: str, barrier_id: str, clock: StoreClock) -> bool:
    """Notes a barrier in place of the writes that went quiet, at the lowest of their positions; returns whether there were any.
    Raises as `open_direct`."""
    if not clock.is_known:
        clock.learn(_touched(store, log_id))
    now = clock()

    def replaced(cut: LogCut) -> LogCut | None:
        gone = quiet(cut, now)
        if cut.sealed or not gone:
            return None
        left = {id_: entry for id_, entry in cut.direct.items() if id_ not in gone}
        return replace(cut, direct=left | {barrier_id: (min(cut.direct[id_][0] for id_ in gone), to_millis(now))})

    return barrier_id in advance(store, log_id, replaced).direct


def close_direct(store: ObjectStore, log_id: str, write_id: str) -> None:
    """Forgets a write that is in the table, or never will be, and all its attempts (`<write_id>/…`). Idempotent; raises as
    `open_direct`."""

    def forgotten(cut: LogCut) -> LogCut | None:
        left = {id_: entry for id_, entry in cut.direct.items() if id_ != write_id and not id_.startswith(f"{write_id}/")}
        return None if len(left) == len(cut.direct) else replace(cut, direct=left)

    advance(store, log_id, forgotten)


def resolved_upto(cut: LogCut) -> int | None:
    """The last position up to which no direct write is under way; None when none is. No clock has a say in it: a note counts
    until a write, a flush or a barrier has taken it away, behind which its write cannot commit."""
    return min((entry[0] for entry in cut.direct.values()), default=None)


def may_be_quiet(cut: LogCut, clock: StoreClock) -> bool:
    """Whether to look closer: as long as this process does not know the store's time, any write that is noted may be quiet."""
    return bool(quiet(cut, clock()) if clock.is_known else cut.direct)


def quiet(cut: LogCut, now: datetime) -> set[str]:
    """The noted writes that gave no sign of life for `_QUIET`."""
    return {id_ for id_, (_, renewed_at) in cut.direct.items() if renewed_at < to_millis(now - _QUIET)}
