"""The protocol with one of its rules taken away, each time another one. The simulation has to notice.

A fault replaces one function or method of the production code, or one actor, for as long as it is planted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from unittest.mock import patch

from lakewarden.errors import StorageUnavailable
from lakewarden.log import clean, cut, drain, names, nextcut, place, segment, settle, view
from lakewarden.log.cut import Cut
from lakewarden.log.drain import StrongRead, read_hot
from lakewarden.log.names import Listing
from lakewarden.log.nextcut import NextCut
from lakewarden.log.place import Placing, Segment
from lakewarden.log.position import NOTHING, end_of
from lakewarden.log.segment import RowRange
from lakewarden.log.view import LogView
from lakewarden.storage.objects import AlreadyThere, Missing, ObjectStore
from tests.log.simulation import actors, stores
from tests.log.simulation.actors import Flusher, Warehouse
from tests.log.simulation.schedule import Roles
from tests.log.simulation.stores import Row, Snapshot

_MADE, _LOST = place._Fate.MADE, place._Fate.LOST


@dataclass(frozen=True)
class Fault:
    rule: str
    """The rule that is not followed."""
    replaced: tuple[tuple[object, str, Callable[..., Any]], ...] = ()
    roles: Roles = field(default_factory=Roles)
    within: int = 2_000
    """Schedules in which it has to be found."""

    @contextmanager
    def planted(self) -> Iterator[Roles]:
        with ExitStack() as stack:
            for owner, name, wrong in self.replaced:
                stack.enter_context(patch.object(owner, name, wrong))
            yield self.roles


def _no_look(placing: Placing, position: int, segment: Segment) -> object:
    return _MADE


def _moves_on(placing: Placing, position: int, segment: Segment, error: StorageUnavailable) -> object:
    return _LOST


def _believes_in_success(placing: Placing, position: int, segment: Segment, error: StorageUnavailable) -> object:
    return placing._look(position, segment)


def _takes_any_for_its_own(store: ObjectStore, key: str) -> str:
    real = store.get_range(key, 0, 32)
    return _LAST_PUT.get(id(store), real[16:32].hex())


_LAST_PUT: dict[int, str] = {}


def _trace_ignoring_id(placing: Placing, position: int, segment: Segment) -> object:
    try:
        segment_id = segment.put_id if placing._store.get(names.segment_key(placing._log_id, position)) else ""
    except Missing:
        return None
    return _MADE if segment_id else _LOST


def _late_whatever_was_taken(placing: Placing, position: int, segment: Segment) -> object:
    placing._remove(position)
    placing._not_sealed(placing._cut)
    return _LOST


def _run_over_gaps(listing: Listing, position: int) -> range:
    return range(position + 1, max(position, listing.last_position) + 1)


def _segment_or_gap(store: ObjectStore, key: str, position: int) -> segment.Header:
    try:
        return _read_segment(store, key, position)
    except Missing:
        return segment.Header(key, "", ())


_read_segment = segment.read_segment


def _commit_on_anything(snapshot: Snapshot, rows: list[Row], end: int) -> None:
    snapshot.opened = replace(snapshot.opened, version=snapshot.table.version)
    snapshot._turn("commit on whatever is there")
    snapshot._apply(rows, end)


class _MarksFirst(Flusher):
    def flush_users(self, view: LogView, due: Any) -> None:
        due = list(due)
        self.settle(view, {user: view.end for user in due if not self.house.tables[user].broken})
        super().flush_users(view, due)


class _MarksAll(Flusher):
    """Takes every pending scope for settled, those too that failed or were not due."""

    def settle(self, view: LogView, settled: Mapping[str, int]) -> None:
        super().settle(view, {user: view.end for user in view.pending})


def _no_watermark(watermark: int | None, hot: object) -> int:
    return NOTHING


def _prune_newest(log_id: str, cut: Cut, found: Listing) -> dict[str, list[str]]:
    doomed = _doomed(log_id, cut, found)
    return {**doomed, "last cut": [names.cut_key(log_id, cut.version)]}


_doomed = clean._doomed


def _clean_all_carry(log_id: str, cut: Cut, found: Listing) -> dict[str, list[str]]:
    return {**_doomed(log_id, cut, found), "carry": [key for key in sorted(found.carry) if key not in cut.carry]}


def _clean_what_is_settled_by_marks(log_id: str, cut: Cut, found: Listing) -> dict[str, list[str]]:
    upto = max([cut.upto, *(seq >> 28 for seq in cut.settled.values())])
    return _doomed(log_id, replace(cut, upto=upto), found)


def _cut_counts_at_once(
    store: ObjectStore, view: LogView, plan: NextCut, settings: Any, new_id: Any, reach: Any
) -> bool:
    """Cleans by the cut that was created, without looking whether it is the newest."""
    done = _make(store, view, plan, settings, new_id, reach)
    made = settle.read_cut_of(store, view.log_id, view.cut.version + 1)
    if made is not None:
        doomed = _doomed(view.log_id, made, names.listings(each.key for each in store.list(names.home(view.log_id)))[view.log_id])
        store.delete(doomed["segments"])
    return done


_make = settle._make


def _newest_unconfirmed(store: ObjectStore, log_id: str, known: Cut | None = None) -> Cut:
    while True:
        version = cut.newest_version(store, log_id)
        if known is not None and known.version == version:
            return known
        try:
            return cut.read_cut(store, log_id, version)
        except Missing:
            continue


def _cold_first(house: Warehouse, user: str, cache: Any) -> Any:
    began = house.world.now
    cold = house.open(user)
    read: StrongRead[list[Row], Snapshot] = read_hot(lambda: house.look(user, cache), lambda: cold)
    return read, house.journal.strong_read(user, began, read, dropped=house.sealing)
