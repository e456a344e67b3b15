"""Decides the contents of the next cut: which positions to release, and which rows to move for that. A pure decision.

Marks are cheap and always made. Positions are let go when the rows to be moved are a small share of their bytes: each
byte that is copied frees at least as many, and what is kept for the sake of a scope that cannot be flushed stays in
proportion to that scope's own rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from lakewarden.base.attempts import Attempts
from lakewarden.base.clock import to_micros
from lakewarden.base.setting_sections import LogSettings
from lakewarden.errors import NotDurable, StorageUnavailable
from lakewarden.log.chunk import RowRange
from lakewarden.log.objects import names
from lakewarden.log.objects.cut import HistoryObject, LogCut, confirm, encode_cut, newest_cut
from lakewarden.log.objects.header import Header, highest_seq, total_bytes, without
from lakewarden.log.objects.log_view import LogView
from lakewarden.log.position import NOTHING, end_of, whole
from lakewarden.storage.objects import AlreadyThere, ObjectStore

# Decides which settled rows are kept for subscribers that reconnect. A pure decision, like `next_cut`.
#
# A chunk enters the history when it leaves the log (segments and carry), so of every chunk there is exactly one copy: in the
# log, or in the history, or it was forgotten. The highest `_seq` that was forgotten is kept.

Chunks = tuple[Sequence[RowRange], ...]
"""Chunks, those of one object beside each other."""


JOINED = 32
"""Small objects that are made one: a table that is flushed every second would have 3,600 of them."""

SMALL = 1 << 20
"""Bytes below which an object is small: larger ones are not worth the copy."""


@dataclass(frozen=True)
class Leaving:
    """Chunks on their way into the history; when they left the log, as `HistoryObject.left_at`."""

    left_at: int
    chunks: Chunks
    joined: bool = False

    @property
    def small(self) -> bool:
        return not self.joined and sum(map(total_bytes, self.chunks)) < SMALL


@dataclass(frozen=True)
class History:
    """The history of the next cut."""

    kept: tuple[HistoryObject, ...] = ()
    """Objects that stay as they are."""
    left: tuple[Leaving, ...] = ()
    """Chunks that it gets."""
    joined: tuple[HistoryObject, ...] = ()
    """Objects that it gets as one."""
    forgotten: int = NOTHING


def history_after(cut: LogCut, left: Chunks, seconds: float, now: datetime | None) -> History:
    """The history when these chunks leave the log now; without `now` nothing is kept.

    Args:
        seconds: how long chunks are kept.
    """
    if now is None or seconds == 0:
        gone = [*(kept.last_seq for kept in cut.history), *map(highest_seq, left)]
        return History(forgotten=max([cut.forgotten, *gone]))
    since = to_micros(now - timedelta(seconds=seconds))
    young = tuple(each for each in cut.history if each.left_at >= since)
    joined = _joined(young, seconds) if left else ()
    gone = [each.last_seq for each in cut.history if each.left_at < since]
    kept = tuple(each for each in young if each not in joined)
    return History(kept, (Leaving(to_micros(now), left),) if left else (), joined, max([cut.forgotten, *gone]))


def _joined(kept: Sequence[HistoryObject], seconds: float) -> tuple[HistoryObject, ...]:
    """The oldest small objects, if they are many and left at about the same time: together they go when the last one does."""
    small = tuple(each for each in kept if each.small)[:JOINED]
    # An object goes when its youngest rows may. Joined over a wide span, old rows would stay far beyond the retention.
    if len(small) < JOINED or small[-1].left_at - small[0].left_at > seconds * 1_000_000 / 8:
        return ()
    return small


def history_without(cut: LogCut, left: Chunks, headers: Mapping[HistoryObject, Header], user: str, now: datetime) -> History:
    """The history when these chunks leave the log and nothing of a user stays: objects with rows of theirs are made again.

    Args:
        headers: what is in each object of `cut.history`.
    """
    theirs = {kept: header for kept, header in headers.items() if header.of({user})}
    left = tuple(part for chunks in left if (part := without(chunks, user)))
    remade = ((kept, without(header.ranges, user)) for kept, header in theirs.items())
    # Remade parts keep the moment when their rows left, or each erasure would prolong the retention of all others.
    others = [Leaving(to_micros(now), left), *(Leaving(kept.left_at, (part,) if part else ()) for kept, part in remade)]
    return History(
        tuple(kept for kept in headers if kept not in theirs),
        tuple(each for each in others if each.chunks),
        forgotten=cut.forgotten,
    )


def has_expired(cut: LogCut, seconds: float, now: datetime) -> bool:
    """Whether the next cut would give something up."""
    since = to_micros(now - timedelta(seconds=seconds))
    return any(kept.left_at < since for kept in cut.history)


_GROWTH = 2
"""A carry object joins what is newly carried unless it is this many times larger: so there are few, and a row is
copied a logarithmic number of times."""


MOST_MARKS = 1 << 15
"""Marks of a cut, some 800 KiB, which every look at a new cut reads. Beyond it, open rows are copied whatever their share: at
most once for as many users that were flushed."""

_ANY_SHARE = float("inf")


@dataclass(frozen=True)
class NextCut:
    upto: int
    kept: tuple[str, ...]
    """Carry objects that stay as they are."""
    moved: Chunks
    """Chunks to be carried, per object in which they lie."""
    marks: dict[str, int]
    history: History = field(default_factory=History)
    erased: Mapping[str, int] = field(default_factory=dict)
    """By keyed hash: users whose rows up to a position are left out."""
    rewound: Mapping[str, int] = field(default_factory=dict)
    """As in a cut, instead of what stood there."""
    doubts: bool = False
    """Whether parts of the log are lost, so that the last batches of writers are uncertain."""
    columns: int | None = None
    """As in a cut, instead of what stands there; None where it stays."""
    fence: int | None = None
    """The same."""


def next_cut(view: LogView, settled: Mapping[str, int], settings: LogSettings, now: datetime | None = None) -> NextCut | None:
    """The cut to make after `view.cut`, if there is anything new to say.

    Args:
        now: what leaves the log is kept from then on; without it, nothing is.
    """
    if view.cut.sealed:
        return None
    marks = _merged(view.cut.settled, settled)
    plan = _planned(view, marks, settings.carry_below, settings.retention_seconds, now)
    # Many single users were flushed: to copy the open rows once costs less than a cut that every process reads
    # (docs/decisions/0031-a-million-users-in-one-segment.md).
    if len(plan.marks) > MOST_MARKS:
        plan = _planned(view, marks, _ANY_SHARE, settings.retention_seconds, now)
    return plan if _says_more(view, plan) else None


def _planned(view: LogView, marks: Mapping[str, int], share: float, seconds: float, now: datetime | None) -> NextCut:
    """The cut that copies open rows of at most that share of what it lets go."""
    upto = _reach(view, marks, share)
    gone = view.run[: upto - view.cut.upto]
    moved = [open_ranges for header in gone if (open_ranges := header.open(marks))]
    # Carry joins what is moved anyway, and so each row is copied again only when the objects have about doubled.
    kept, joined = _sorted_carry(view.carry, marks, sum(map(total_bytes, moved)), share)
    moved = [*(header.open(marks) for header in joined), *moved]
    live = [*kept, *view.run[upto - view.cut.upto :]]
    needed = _needed(marks, live, view.last_position)
    stay = tuple(header.key for header in kept)
    left = _settled((*(header for header in view.carry if header.key not in stay), *gone), marks)
    history = history_after(view.cut, left, seconds, now)
    return NextCut(upto, stay, tuple(moved), needed, history)


def cut_without(view: LogView, user: str, mark: str, history: Mapping[HistoryObject, Header], now: datetime) -> NextCut:
    """The cut that settles every position of the view and carries all open rows but this user's.

    Args:
        history: what is in each object of `view.cut.history`; nothing of the user stays there either.
    """
    # As a mark over the whole view, the user's rows count as settled, and what is settled is not carried.
    marks = {**view.cut.settled, user: view.end}
    # An object with rows of the user goes even if others' rows in it are open; these are copied.
    theirs = {header.key for header in view.carry if header.of({user})}
    kept = [header for header in view.carry if header.key not in theirs and header.has_open(marks)]
    stay = tuple(header.key for header in kept)
    gone = (*(header for header in view.carry if header.key not in stay), *view.run)
    moved = tuple(open_ranges for header in gone if (open_ranges := header.open(marks)))
    needed = _needed(marks, kept, view.last_position)
    without = history_without(view.cut, _settled(gone, marks), history, user, now)
    return NextCut(view.last_position, stay, moved, needed, without, {mark: view.last_position})


def cut_leaving_out(view: LogView, chunks: Collection[RowRange], settings: LogSettings, now: datetime) -> NextCut | None:
    """The cut that settles every position of the view and carries all open rows but these chunks, which cannot be read; None
    where the log does not have them any more."""
    left = {(each.user, each.first_seq) for each in chunks}
    marks = view.cut.settled
    headers = (*view.carry, *view.run)
    open_ranges = [part for header in headers if (part := header.open(marks))]
    moved = tuple(part for ranges in open_ranges if (part := tuple(r for r in ranges if (r.user, r.first_seq) not in left)))
    # Another repair, or a flush, was faster.
    if sum(map(len, moved)) == sum(map(len, open_ranges)):
        return None
    history = history_after(view.cut, _settled(headers, marks), settings.retention_seconds, now)
    # Subscribers have to learn that rows are missing which they were not shown.
    forgotten = max(history.forgotten, *(each.last_seq for each in chunks))
    needed = _needed(marks, (), view.last_position)
    return NextCut(view.last_position, (), moved, needed, replace(history, forgotten=forgotten), doubts=True)


def _merged(old: Mapping[str, int], new: Mapping[str, int]) -> dict[str, int]:
    marks = dict(old)
    for user, seq in new.items():
        # The log settles segment by segment: a mark within a position counts up to the position before.
        marks[user] = max(marks.get(user, NOTHING), whole(seq))
    return marks


def _settled(headers: Sequence[Header], marks: Mapping[str, int]) -> Chunks:
    return tuple(part for header in headers if (part := header.settled(marks)))


def _open_bytes(header: Header, marks: Mapping[str, int]) -> int:
    """The bytes of chunks above their users' marks; reads what the header knows of the marked users alone."""
    return header.bytes - total_bytes(header.settled(marks))


def _pays(moved: int, of: int, share: float) -> bool:
    # What frees space without a copy always pays, also where the share is 0.
    return moved == 0 or moved < share * of


def _reach(view: LogView, marks: Mapping[str, int], share: float) -> int:
    """The last position that can be let go with a copy that pays."""
    upto = position = view.cut.upto
    moved = total = 0
    for header in view.run:
        position += 1
        moved += _open_bytes(header, marks)
        total += header.bytes
        # The sum may pay again further on: one scope's rows near the beginning do not keep all that is behind them.
        if _pays(moved, total, share):
            upto = position
    return upto


def _sorted_carry(
    carry: Sequence[Header], marks: Mapping[str, int], moved: int, share: float
) -> tuple[list[Header], list[Header]]:
    """Carry objects that stay, and those whose open rows join the new one; those without open rows are in neither."""
    kept: list[Header] = []
    joined: list[Header] = []
    # Small ones first, so that each join makes the next larger one worth its copy.
    for header in sorted(carry, key=lambda each: each.bytes):
        live, size = _open_bytes(header, marks), header.bytes
        if live == 0:
            continue
        # Either the object is mostly settled, or there is a new object to be made anyway and this one is not much larger.
        if (live < size and _pays(live, size, share)) or (moved and live <= _GROWTH * moved):
            joined.append(header)
            moved += live
        else:
            kept.append(header)
    return kept, joined


def _needed(marks: Mapping[str, int], live: Sequence[Header], last_position: int) -> dict[str, int]:
    """Marks that hide something which is still there, or that speak of positions not seen here."""
    end = end_of(last_position)
    # A mark may go only with the last thing that it hides: else settled rows would be pending again.
    hiding = {each.user for header in live for each in header.settled(marks)}
    # A mark beyond the view is of a later flush, whose segments this view does not show.
    return {user: seq for user, seq in marks.items() if user in hiding or seq > end}


def _says_more(view: LogView, plan: NextCut) -> bool:
    """A cut that only forgets marks is not worth an object."""
    if plan.history.forgotten > view.cut.forgotten:
        return True
    if plan.upto > view.cut.upto or set(plan.kept) != set(view.cut.carry):
        return True
    return any(seq > view.cut.settled.get(user, NOTHING) for user, seq in plan.marks.items())


# Computes the next cut when it follows from the last one alone: a copy with the given changes.


def advance(store: ObjectStore, log_id: str, change: Callable[[LogCut], LogCut | None]) -> LogCut:
    """Makes the cut that `change` wants, again for each lost race, until it wants none; returns the one that counts then.

    Raises:
        Conflict: flushes settled the log again and again meanwhile.
        StorageUnavailable: the store failed; try again.
        NotDurable: the cut may be gone after a crash of the machine.
    """
    failure: StorageUnavailable | None = None
    cut = LogCut()
    attempts = Attempts(100, f"log {log_id} of {store.uri} was settled", "while it was to be changed")
    while attempts.next():
        cut = newest_cut(store, log_id, cut)
        wanted = change(cut)
        if wanted is None:
            confirm(store, log_id, cut)
            return cut
        # The attempt before failed and the cut that it may have made is not there: the store takes none now. Else this would
        # loop.
        if failure is not None:
            raise failure
        version = cut.version + 1
        try:
            store.create(names.cut_key(log_id, version), encode_cut(replace(wanted, version=version)))
        except AlreadyThere:
            continue
        # A cut that can be seen and may vanish must not be built upon, nor made a second time under the next number.
        except NotDurable:
            raise
        except StorageUnavailable as error:
            failure = error  # it may be there all the same
