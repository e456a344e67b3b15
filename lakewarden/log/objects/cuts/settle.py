"""Settles what flushes have committed: marks it in the next cut of the log, and cleans it up when that pays.

A cut is made from the newest one and counts only if a listing after its creation shows none newer. Who loses reads
again: what others settled meanwhile is merged, never overwritten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import chain

from lakewarden.base.attempts import Attempts
from lakewarden.base.clock import NewId
from lakewarden.base.faults import Reach, no_faults
from lakewarden.base.quantities import portions
from lakewarden.base.setting_sections import LogSettings
from lakewarden.errors import NotDurable, StorageUnavailable
from lakewarden.log.objects import names
from lakewarden.log.objects.cache import IN_HAND, HeaderCache
from lakewarden.log.objects.clean import clean, remove_below
from lakewarden.log.objects.cut import (
    KEYS_REMEMBERED,
    REMEMBERED,
    HistoryObject,
    LogCut,
    encode_cut,
    remember,
    remember_erased,
    remember_published,
)
from lakewarden.log.objects.cuts.next_cut import SMALL, Chunks, Leaving, NextCut, next_cut
from lakewarden.log.objects.cuts.writers import in_doubt, newest, published_in
from lakewarden.log.objects.header import UNKNOWN, BatchIdentity, Header
from lakewarden.log.objects.log_view import LogView
from lakewarden.log.objects.names import LogListing
from lakewarden.log.objects.pack import INDEXED, CarriedChunk, pack_carry
from lakewarden.log.objects.segment import Held, copied_chunks, read_carry, tiny_carry
from lakewarden.log.objects.view import read_view
from lakewarden.storage.objects import AlreadyThere, Missing, ObjectStore


@dataclass(frozen=True)
class CutTerms:
    """What the objects of a log are made by, when a cut or a batch makes some."""

    settings: LogSettings
    new_id: NewId
    segment_format: int = INDEXED
    reach: Reach = no_faults

    @property
    def stages(self) -> bool:
        """Whether the format of the warehouse has staged batches."""
        return self.segment_format >= INDEXED


# Moving rows out of segments that go, as they are: nothing here decodes them. Open rows go into the carry, settled ones into
# the history.
def make_carry(store: ObjectStore, log_id: str, version: int, moved: Chunks, terms: CutTerms) -> list[str]:
    """Copies the chunks (those of one object beside each other) into objects for the cut of that version; their keys.

    Raises:
        Missing: an object to copy from was cleaned away.
    """
    return [key for key, *_ in _made(store, partial(names.carry_key, log_id, version), moved, terms, None)]


def make_history(
    store: ObjectStore, log_id: str, version: int, leaving: Leaving, terms: CutTerms, held: Held
) -> dict[HistoryObject, Header | None]:
    """The same of settled chunks; the objects, with the headers of tiny ones."""
    made: dict[HistoryObject, Header | None] = {}
    for key, data, chunks in _made(store, partial(names.history_key, log_id, version), leaving.chunks, terms, held):
        last_seq = max(each.first_seq + each.rows - 1 for each in chunks)
        made[HistoryObject(key, last_seq, leaving.left_at, leaving.small)] = tiny_carry(key, data)
    return made


def _made(
    store: ObjectStore, key_of: Callable[[str], str], moved: Chunks, terms: CutTerms, held: Held | None
) -> Iterator[tuple[str, bytes, list[CarriedChunk]]]:
    copies = (
        CarriedChunk(each.user, each.rows, data, each.first_seq, each.schema_version, each.stored_at)
        for ranges in moved
        for each, data in zip(ranges, copied_chunks(store, ranges, held), strict=True)
    )
    # A chunk is never split.
    for chunks in portions(copies, lambda chunk: len(chunk.data), terms.settings.segment_max_bytes):
        unique = terms.new_id()
        data = pack_carry(unique, chunks, terms.segment_format)
        store.create(key_of(unique), data)
        yield key_of(unique), data, chunks


def settle(
    store: ObjectStore,
    view: LogView,
    settled: Mapping[str, int],
    terms: CutTerms,
    *,
    now: datetime | None = None,
    cache: HeaderCache | None = None,
    worth: int = 1,
) -> None:
    """As `TableLog.settle`.

    Args:
        now: what is settled now is kept for `retention_seconds` of the settings from then on; without it, for no time.
        worth: fewer objects than that are not removed now, if few bytes go and no other process interfered. Who was
            overtaken removes all: by an erasure, maybe, which has looked already.
    """
    cache = cache or HeaderCache()
    failure: StorageUnavailable | None = None
    attempts = Attempts(100, f"log {view.log_id} of {store.uri} was settled by others", "meanwhile", "settle it later")
    while attempts.next():
        try:
            plan = next_cut(view, settled, terms.settings, now)
        except Missing:  # an index was cleaned away by others, or is lost
            cache = HeaderCache()
            view = read_view(store, view.log_id, cache, ())
            continue
        if plan is None:
            return clean(store, view.log_id, known=view.cut, reach=terms.reach)
        if failure is not None:
            raise failure
        try:
            if made := make_cut(store, view, plan, terms, cache):
                cache.keep(view.log_id, made.cut, made.tiny)
                # Small amounts wait for more, but not behind a lost race: what was made for a cut that does not count may have
                # rows of a user whose erasure has looked already (docs/decisions/0038-what-a-flush-job-requests.md).
                least = worth if attempts.made == 1 and _bytes_let_go(view, plan) < SMALL else 1
                return remove_below(store, view.log_id, made.cut, made.found, passed=made.passed, worth=least, reach=terms.reach)
        except NotDurable:
            raise  # the cut may be seen, and nothing may be removed for its sake
        except StorageUnavailable as error:
            failure = error  # the cut may be there all the same: the next look tells
        except Missing:
            cache = HeaderCache()  # others cleaned away what was to be carried; or it is lost, which no memory may hide
        view = read_view(store, view.log_id, cache, ())


def _bytes_let_go(view: LogView, plan: NextCut) -> int:
    return sum(header.bytes for header in (*_passed(view, plan), *(each for each in view.carry if each.key not in plan.kept)))


@dataclass(frozen=True)
class NewestCut:
    """A cut that was made, is durable, and is the newest."""

    cut: LogCut
    found: LogListing
    """What a listing showed that began after the cut was made."""
    tiny: tuple[Header, ...]
    """Those of tiny objects that were made for its history."""
    passed: frozenset[str]
    """Ids of the puts that it settles."""


def make_cut(
    store: ObjectStore, view: LogView, plan: NextCut, terms: CutTerms, cache: HeaderCache | None = None
) -> NewestCut | None:
    """Creates the cut that follows the view's, and returns it if it counts.

    Raises:
        Missing: others cleaned away what was to be carried.
        StorageUnavailable: the cut may be there all the same.
    """
    # The number follows the view's cut. If another cut came first the creation fails, and everything is decided anew from that
    # one.
    version = view.cut.version + 1
    headers, joined = cache or HeaderCache(), plan.history.joined
    parts = {kept.key: headers.header(kept.key) or read_carry(store, kept.key) for kept in joined}
    # What the cut names exists before the cut does. A crash in between leaves objects that no cut names, which a cleanup
    # removes.
    carried = make_carry(store, view.log_id, version, plan.moved, terms)
    # First those whose rows are read from the log: they are gone if it was swept, and nothing may be made of it then.
    kept = [make_history(store, view.log_id, version, each, terms, partial(IN_HAND.take, store)) for each in plan.history.left]
    if joined:
        leaving = Leaving(max(kept.left_at for kept in joined), tuple(header.ranges for header in parts.values()), joined=True)
        kept.insert(0, make_history(store, view.log_id, version, leaving, terms, lambda each: parts[each.key].held(each)))
    terms.reach("settle:carried")
    cut = _following(view, plan, carried, chain.from_iterable(kept))
    try:
        store.create(names.cut_key(view.log_id, version), encode_cut(cut))
    except AlreadyThere:
        return None
    terms.reach("settle:cut")
    # Creation alone proves little: a process that slept may take a number that was pruned. One listing tells, and shows what
    # can go (docs/decisions/0038-what-a-flush-job-requests.md).
    found = names.listing_of(view.log_id, store.keys(names.home(view.log_id)))
    terms.reach("settle:confirmed")
    made = tuple(header for objects in kept for header in objects.values() if header is not None)
    passed = frozenset(header.put_id for header in _passed(view, plan))
    # What was made for a cut that does not count is litter; the next cleanup removes it.
    return NewestCut(cut, found, made, passed) if found.newest_cut == version else None


def _passed(view: LogView, plan: NextCut) -> Sequence[Header]:
    """The segments that the plan settles."""
    return view.run[: plan.upto - view.cut.upto]


def _following(view: LogView, plan: NextCut, carried: Sequence[str], history: Iterable[HistoryObject]) -> LogCut:
    """The view's cut with what the plan changes."""
    passed = _passed(view, plan)
    taken = [header.put_id for header in passed]
    # A jump settles positions that were never seen here: their writers learn that the outcome is unknown.
    taken += [UNKNOWN] * min(plan.upto - view.last_position, REMEMBERED)
    # The segments go, and with them the headers that had the keys: from here on the cut is what answers for a repeated request
    # (docs/decisions/0105-a-write-carries-its-key.md).
    keyed = dict(chain(view.cut.keyed.items(), *(each.keys.items() for each in passed if each.keys)))
    return LogCut(
        view.cut.version + 1,
        plan.upto,
        (*plan.kept, *carried),
        plan.marks,
        remember(view.cut.taken, taken),
        closed=view.cut.closed,
        erased=remember_erased(view.cut.erased, plan.erased),
        history=(*plan.history.kept, *history),
        forgotten=plan.history.forgotten,
        # Whatever a plan does not change has to be copied: a cut replaces the one before it whole.
        rewound=plan.rewound or view.cut.rewound,
        direct=view.cut.direct,
        lost=tuple(position for position in view.cut.lost if position > plan.upto),
        keyed=dict([*keyed.items()][-KEYS_REMEMBERED:]),
        # Once a key was forgotten or may be lost, "not found" proves nothing any more.
        keys_gone=view.cut.keys_gone or plan.doubts or len(keyed) > KEYS_REMEMBERED,
        published=_published(view.cut, published_in(view.cut, passed), doubts=plan.doubts),
        # Needed only while a segment at or below that position is still above the cut.
        restated={key: position for key, position in view.cut.restated.items() if position > plan.upto},
        columns=view.cut.columns if plan.columns is None else plan.columns,
        fence=view.cut.fence if plan.fence is None else plan.fence,
    )


def _published(cut: LogCut, passed: Sequence[BatchIdentity], *, doubts: bool) -> dict[str, int]:
    known = in_doubt(cut, newest(passed), lost=True) if doubts else cut.published
    return remember_published(known, passed)
