"""Finds what is lost of a log, and creates the cuts with which a repair continues without it.

Nothing is removed here, and no row is brought back: a cut says which positions and objects are given up, in the one order
that all cuts have, so that writers, flushes and other repairs may run at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import pairwise

from lakewarden.base.attempts import Attempts
from lakewarden.errors import Corrupt, InvalidArgument
from lakewarden.log.chunk import RowRange
from lakewarden.log.objects import names
from lakewarden.log.objects.cache import HeaderCache
from lakewarden.log.objects.clean import remove_below
from lakewarden.log.objects.cut import EVERYBODY, HistoryObject, LogCut, newest_cut, newest_version
from lakewarden.log.objects.cuts.next_cut import History, NextCut, advance, cut_leaving_out
from lakewarden.log.objects.cuts.settle import CutTerms, make_cut
from lakewarden.log.objects.cuts.writers import in_doubt
from lakewarden.log.objects.header import Header, rows_before, same_put
from lakewarden.log.objects.log_view import LogView
from lakewarden.log.objects.segment import read_carry, read_segment
from lakewarden.log.objects.view import read_view
from lakewarden.log.once import ANY
from lakewarden.log.position import LAST_POSITION, NOTHING, end_of
from lakewarden.log.view import Mark
from lakewarden.storage.objects import Missing, ObjectStore

_SHOWN = 10
"""Lost positions that are named."""

MOST_LOST = 100_000
"""Positions that one cut names as lost: some 700 KiB. More are missing where a cut is lost, not a segment: `jump` is for that."""


@dataclass(frozen=True)
class LogFaults:
    """What is wrong with one log."""

    log_id: str
    missing: tuple[int, ...] = ()
    """Positions without a segment, below one that has one."""
    replaced: tuple[int, ...] = ()
    """Positions whose segment is another than the one that the next follows: that one is lost, and this one is read."""
    unreadable: tuple[int, ...] = ()
    """Positions whose segment is cut off, or no segment."""
    carry: tuple[str, ...] = ()
    """Keys of objects with open rows that the newest cut names, and that are gone or cannot be read."""
    history: tuple[HistoryObject, ...] = ()
    """The same of settled rows, kept for subscribers."""
    last: int = field(default=NOTHING, compare=False)
    """The last position that has a segment."""
    rows: Mapping[int, int | None] = field(default_factory=dict, compare=False)
    """By lost position, how many rows its segment had, as the one behind it says; None where none says it."""

    def __bool__(self) -> bool:
        return bool(self.positions or self.carry or self.history)

    @property
    def positions(self) -> tuple[int, ...]:
        """All whose rows, as they were acknowledged, are lost from the log."""
        return tuple(sorted({*self.missing, *self.replaced, *self.unreadable}))

    @property
    def summary(self) -> str:
        """The same in words, as `the segments of positions 3, 4 are lost`."""
        named = ", ".join(map(str, self.positions[:_SHOWN])) + (", …" if len(self.positions) > _SHOWN else "")
        said: list[tuple[str, Sequence[object]]] = [
            (f"the segments of positions {named} are lost", self.positions),
            (f"{len(self.carry)} objects with rows that no flush has taken are lost", self.carry),
            (f"{len(self.history)} objects with rows kept for subscribers are lost", self.history),
        ]
        return "; ".join(text for text, found in said if found)


def faults_of(store: ObjectStore, log_id: str) -> LogFaults:
    """As `LogReader.faults`: looks at each object of the log by name, past what any cache remembers.

    Raises:
        Corrupt: its newest cut cannot be read, or more is missing than `MOST_LOST` positions.
    """
    attempts = Attempts(100, f"log {log_id} of {store.uri} was settled", "while it was looked at")
    while attempts.next():
        sizes = {each.key: each.size for each in store.list(names.home(log_id))}
        cut = newest_cut(store, log_id)
        found = _look(store, log_id, cut, sizes)
        if newest_version(store, log_id) == cut.version:
            return found


def _look(store: ObjectStore, log_id: str, cut: LogCut, sizes: Mapping[str, int]) -> LogFaults:
    last = names.listings(sizes).get(log_id, names.LogListing()).last_position
    # Each gap would be looked up by name, and named in the cut that gives it up: more than this is no loss of segments.
    if last - cut.upto - len(sizes) > MOST_LOST:
        raise Corrupt(
            f"log {log_id} of {store.uri} misses more than {MOST_LOST} positions between its newest cut, at {cut.upto}, and"
            f" {last}: newer cuts are lost. `lakewarden repair --restored` begins behind them"
        )
    missing, unreadable, headers = [], [], dict[int, Header]()
    for position in range(cut.upto + 1, last + 1):
        if position in cut.lost:
            continue
        key = names.segment_key(log_id, position)
        try:
            # By name and past every cache: what this process remembers of a segment does not prove that it is still there.
            headers[position] = _whole(read_segment(store, key, position), sizes)
        except Missing:
            missing.append(position)
        except Corrupt:
            unreadable.append(position)
    replaced = tuple(_replaced(headers))
    carry = tuple(key for key in cut.carry if not _is_there(store, key, sizes))
    history = tuple(kept for kept in cut.history if not _is_there(store, kept.key, sizes))
    rows = {position: _rows(headers.get(position + 1)) for position in (*missing, *replaced, *unreadable)}
    return LogFaults(log_id, tuple(missing), replaced, tuple(unreadable), carry, history, last, rows)


def _rows(following: Header | None) -> int | None:
    """How many rows the segment before that one had."""
    return None if following is None else rows_before(following.after)


def _replaced(headers: Mapping[int, Header]) -> Iterable[int]:
    for (position, one), (following, other) in pairwise(headers.items()):
        # Neighbours only: across a gap the link names the segment that is missing.
        if position + 1 == following and not same_put(one.put_id, other.after):
            yield position


def _is_there(store: ObjectStore, key: str, sizes: Mapping[str, int]) -> bool:
    try:
        _whole(read_carry(store, key), sizes)
    except (Missing, Corrupt):
        return False
    return True


def _whole(header: Header, sizes: Mapping[str, int]) -> Header:
    """Raises:
    Corrupt: an object with its chunks is shorter than the header says, or is missing. Of an object that was read by its name,
        the listing that `sizes` are of may not know.
    """
    for key, end in header.ends.items():
        # Staged objects lie elsewhere, and the listing has every one of them: one that it lacks is gone.
        size = sizes.get(key, end if key == header.key else 0)
        if size < end:
            raise Corrupt(f"{key} is cut off: it has {size} bytes of {end}")
    header.check()
    return header


def give_up(store: ObjectStore, faults: LogFaults) -> LogCut:
    """As `TableLog.give_up`; returns the cut that counts then.

    A lost position counts as taken and empty until a later cut passes it; what a writer put there meanwhile is read. Whoever
    follows the log and was not shown the lost rows learns that rows are not kept any more.
    """
    gone = [kept.last_seq for kept in faults.history]
    gone += [end_of(position) for position in faults.positions]

    def without(cut: LogCut) -> LogCut | None:
        # A position at or below `upto` was settled meanwhile, and needs no entry: nothing reads it any more.
        lost = tuple(sorted({*cut.lost, *(position for position in faults.positions if position > cut.upto)}))
        carry = tuple(key for key in cut.carry if key not in faults.carry)
        history = tuple(kept for kept in cut.history if kept not in faults.history)
        if cut.sealed or (lost, carry, history) == (cut.lost, cut.carry, cut.history):
            return None
        # Carry holds rows from anywhere below `upto`, so all of that may be incomplete for who follows the log.
        carried = [end_of(cut.upto)] if carry != cut.carry else []
        cut = replace(cut, lost=lost, carry=carry, history=history, forgotten=max([cut.forgotten, *gone, *carried]))
        # Lost history takes nothing from any table: its rows had been flushed, with the identities of their batches in the cut.
        if not (faults.positions or faults.carry):
            return cut
        # A lost segment may have been any writer's batch, or have carried any key
        # (docs/decisions/0100-identities-behind-a-repair.md).
        return replace(cut, published=in_doubt(cut, {}, lost=True), restated={**cut.restated, ANY: faults.last}, keys_gone=True)

    return advance(store, faults.log_id, without)


def leave_out_chunks(
    store: ObjectStore,
    log_id: str,
    chunks: Collection[RowRange],
    terms: CutTerms,
    *,
    now: datetime,
) -> None:
    """As `TableLog.leave_out_chunks`, behind `give_up`: carries the rows of all others."""
    _cut_anew(
        store,
        log_id,
        lambda view: cut_leaving_out(view, chunks, terms.settings, now),
        terms,
    )


def jump(
    store: ObjectStore,
    log_id: str,
    position: int,
    settled: Mapping[str, int],
    terms: CutTerms,
    *,
    mark: Mark,
    lost: bool = False,
) -> LogCut:
    """As `TableLog.jump`; returns the cut, which settles all positions up to one behind that and behind the log's end.

    Rows in carry objects of newer cuts, which are lost, are carried too. What is written from now on has a higher `_seq` than
    anything that any table has seen. Each repetition takes a position.
    """
    if position >= LAST_POSITION:
        raise InvalidArgument(f"log {log_id} cannot begin behind position {position}: the last one is {LAST_POSITION}")
    return _cut_anew(
        store,
        log_id,
        lambda view: replace(_behind(view, _adopted(store, view, mark), position, settled), doubts=lost),
        terms,
    )


def _cut_anew(store: ObjectStore, log_id: str, planned: Callable[[LogView], NextCut | None], terms: CutTerms) -> LogCut:
    """Makes the cut that is planned for the newest view, and returns the one that counts then: the view's own, where the log is
    sealed or no cut is planned.

    Raises:
        Conflict: others settled the log again and again.
    """
    attempts = Attempts(100, f"log {log_id} of {store.uri} was settled by others", "meanwhile")
    while attempts.next():
        view = read_view(store, log_id, HeaderCache())
        try:
            # The table was dropped: a seal needs no repair, and must not be replaced by a cut that takes rows.
            plan = None if view.cut.sealed else planned(view)
            if plan is None:
                return view.cut
            made = make_cut(store, view, plan, terms)
        except Missing:
            continue  # a flush settled it meanwhile
        if made is not None:
            remove_below(store, log_id, made.cut, made.found, passed=made.passed)
            return made.cut


def _adopted(store: ObjectStore, view: LogView, mark: Mark) -> list[tuple[RowRange, ...]]:
    """Rows in carry that a newer cut than the view's would have named, and that the view does not have, each once."""
    found = names.listing_of(view.log_id, store.keys(names.home(view.log_id)))
    # Cuts that came after the backup are lost, and with them the only names of these rows, which left their segments.
    keys = [key for key, version in sorted(found.carry.items()) if version > view.cut.version]
    # A row keeps its `_seq` wherever it is copied, so this tells the copies of one chunk.
    seen = {(each.user, each.first_seq) for header in (*view.carry, *view.run) for each in header.ranges}
    adopted: list[tuple[RowRange, ...]] = []
    for key in keys:
        ranges = tuple(each for each in read_carry(store, key).ranges if (each.user, each.first_seq) not in seen)
        seen |= {(each.user, each.first_seq) for each in ranges}
        # An object may be older than an erasure that the restored cut still knows.
        adopted.append(tuple(each for each in ranges if not _erased(view.cut, mark(each.user), each)))
    return [ranges for ranges in adopted if ranges]


def _erased(cut: LogCut, mark: str, rows: RowRange) -> bool:
    return mark in cut.closed or rows.first_seq <= end_of(cut.erased.get(mark, NOTHING))


def _behind(view: LogView, adopted: Sequence[tuple[RowRange, ...]], position: int, settled: Mapping[str, int]) -> NextCut:
    # One beyond everything that any cut, floor or watermark speaks of: tables take rows at or below their watermark for
    # settled.
    upto = max(position, view.last_position) + 1
    # Two sources, because the restored cut may be older than the tables; a chunk that either one covers is in its table.
    marks = [view.cut.settled, settled]

    def is_open(each: RowRange) -> bool:
        return all(each.last_seq > known.get(each.user, NOTHING) for known in marks)

    every = (*(header.ranges for header in (*view.carry, *view.run)), *adopted)
    parts = (tuple(filter(is_open, ranges)) for ranges in every)
    moved = tuple(part for part in parts if part)
    # the catalog that came back may be older than the cut, and its columns and leases with it
    return NextCut(upto, (), moved, {}, History(forgotten=end_of(upto)), rewound={EVERYBODY: upto}, columns=0, fence=0)
