"""The protocol with one of its rules taken away, each time another one. The simulation has to notice.

A fault replaces a function or method of the production code, or an actor, for as long as it is planted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from unittest.mock import patch

from lakewarden.base.clock import NewId
from lakewarden.log import drain
from lakewarden.log.chunk import RowRange
from lakewarden.log.drain import read_hot
from lakewarden.log.objects import clean, cut, names, put, segment, view
from lakewarden.log.objects.cache import HeaderCache
from lakewarden.log.objects.cut import HistoryObject, LogCut
from lakewarden.log.objects.cuts import closing, fill, settle
from lakewarden.log.objects.cuts import next_cut as history
from lakewarden.log.objects.cuts import next_cut as nextcut
from lakewarden.log.objects.cuts.next_cut import History, NextCut
from lakewarden.log.objects.cuts.settle import NewestCut
from lakewarden.log.objects.group import Parcel
from lakewarden.log.objects.header import ID_BYTES, Header
from lakewarden.log.objects.log_view import LogView
from lakewarden.log.objects.names import LogListing
from lakewarden.log.objects.put import Puts, Segment
from lakewarden.log.objects.staging import StagedBatch
from lakewarden.log.objects.trail import Trail
from lakewarden.log.objects.writer import LogWriter
from lakewarden.log.position import NOTHING, Receipt, position_of
from lakewarden.storage.objects import AlreadyThere, Missing, ObjectStore
from lakewarden.storage.steps import Steps
from tests.log.simulation import actors, light, schedule
from tests.log.simulation.actors import Eraser, Flusher, Warehouse
from tests.log.simulation.schedule import AS_IT_IS, Roles
from tests.log.simulation.stores import Row, SimObjects, Snapshot

_MADE, _LOST = put._Fate.MADE, put._Fate.LOST
_naming = StagedBatch.segment
_doomed, _make, _put = clean._doomed, settle.make_cut, Puts.put
_history, _fill = history.history_after, fill.fill
_choose, _refused, _created = Puts._choose, Puts.refused, Puts._create


@dataclass(frozen=True)
class Fault:
    name: str
    """What the protocol then does."""
    replaced: tuple[tuple[object, str, object], ...] = ()
    roles: Roles = AS_IT_IS

    @contextmanager
    def planted(self) -> Iterator[Roles]:
        with ExitStack() as stack:
            for owner, name, wrong in self.replaced:
                stack.enter_context(patch.object(owner, name, wrong))
            yield self.roles


# --- appending


def _no_look(*_: object) -> object:
    return _MADE


def _moves_on(*_: object) -> object:
    return _LOST


def _believes(*_: object) -> object:
    return _MADE


def _any_put_is_ours(puts: Puts, position: int, _: Segment) -> object:
    try:
        puts._store.get(names.segment_key(puts._log_id, position))
    except Missing:
        return None
    return _MADE


def _forgets_what_was_taken(puts: Puts, position: int, _: Segment) -> object:
    puts._remove(position)
    puts._not_sealed(puts._cut)
    return _LOST


def _anywhere(puts: Puts, made: Segment, _: int | None = None) -> int:
    return _put(puts, made)


def _keeps_at_once(puts: Puts, position: int, segment: put._Put) -> put._Fate:
    puts._keep(position, segment)
    return _created(puts, position, segment)


def _chooses_blindly(puts: Puts, known: int | None, after: int | None) -> int:
    return after + 1 if after is not None else _choose(puts, known, after)


def _refuses_before_the_put_alone(puts: Puts, users: frozenset[str], position: int | None) -> frozenset[str]:
    return _refused(puts, users, None) if position is None else frozenset()


def _takes_what_was_given_up(newest: LogCut, position: int) -> bool:
    return newest.sealed or position <= newest.upto


def _in_several(writer: LogWriter, parcels: Sequence[Parcel], after: int | None = None) -> Receipt:
    return writer.gathering.append(parcels, after)


def _sweeps_the_stage(log_id: str, newest: LogCut, found: LogListing) -> dict[str, list[str]]:
    return {**_doomed(log_id, newest, found), "staged": [*found.staged]}


def _forgets_when_it_was_staged(staged: StagedBatch, keys: Mapping[str, int]) -> Segment:
    return _naming(staged, keys)._replace(since=None)


# --- reading the log


def _as_listed(
    store: ObjectStore, log_id: str, listing: LogListing, newest: LogCut, _: HeaderCache, known: Sequence[Header] = ()
) -> tuple[Header, ...]:
    above = sorted(position for position in listing.segments if position > newest.upto + len(known))
    return tuple(segment.read_segment(store, names.segment_key(log_id, position), position) for position in above)


def _last_seen(seen: LogView) -> int:
    return names.number_of(seen.run[-1].key) or 0 if seen.run else seen.cut.upto


def _nowhere(*_: object) -> None:
    return None


class _Anything(int):
    def __ne__(self, other: object) -> bool:
        return False


def _any_version(*_: object) -> int:
    return _Anything()


def _unchecked(_: ObjectStore, __: RowRange, data: memoryview) -> memoryview:
    return data[ID_BYTES:]


def _table_first(house: Warehouse, user: str, cache: HeaderCache) -> object:
    began = house.world.now
    cold = house.open(user)
    read = read_hot(lambda: house.look(user, cache), lambda: cold)
    return read, house.journal.strong_read(user, began, read, dropped=house.sealing)


# --- flushing


def _on_anything(snapshot: Snapshot, rows: list[Row], end: int) -> Steps[None]:
    yield "memory://tables"
    snapshot._turn("commit on whatever is there")
    snapshot._apply(rows, end)


def _no_watermark(*_: object) -> int:
    return NOTHING


class _MarksFirst(Flusher):
    def flush_users(self, seen: LogView, due: Iterable[str]) -> None:
        due = list(due)
        self.settle(seen, {user: seen.end for user in due if not self.house.tables[user].broken})
        super().flush_users(seen, due)


class _MarksFailures(Flusher):
    def settle(self, seen: LogView, settled: Mapping[str, int]) -> None:
        super().settle(seen, dict.fromkeys(seen.pending, seen.end))


# --- settling


def _without_carry(*_: object) -> list[str]:
    return []


def _counts_at_once(store: ObjectStore, seen: LogView, plan: NextCut, *rest: Any) -> NewestCut | None:
    counts = _make(store, seen, plan, *rest)
    try:
        made = cut.read_cut(store, seen.log_id, seen.cut.version + 1)
    except Missing:
        return counts
    found = names.listings(each.key for each in store.list(names.home(seen.log_id))).get(seen.log_id, LogListing())
    store.delete(_doomed(seen.log_id, made, found)["segments"])
    return counts


class _FreeNumber:
    """A store in which the creation of a cut takes the next free number, whoever made the one before."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    def create(self, key: str, data: bytes) -> None:
        try:
            self._store.create(key, data)
        except AlreadyThere:
            folder, number = key.rsplit("/", 1)
            self.create(f"{folder}/{int(number) + 1:020d}", data)


def _does_not_read_again(store: ObjectStore, seen: LogView, plan: NextCut, *rest: Any) -> NewestCut | None:
    return _make(_FreeNumber(store), seen, plan, *rest)  # type: ignore[arg-type]


def _cleans_first(store: ObjectStore, seen: LogView, plan: NextCut, *rest: Any) -> NewestCut | None:
    store.delete([header.key for header in seen.run[: plan.upto - seen.cut.upto]])
    return _make(store, seen, plan, *rest)


# --- durability


class _SettlesUnsynced(Flusher):
    def sync(self) -> None:
        return


def _confirms_nothing(*_: object) -> None:
    return


def _syncs_no_directory(*_: object) -> None:
    return


# --- cleaning


def _keeps_one(version: int, newest: int) -> bool:
    return version <= newest - 1


def _newest_too(log_id: str, newest: LogCut, found: LogListing) -> dict[str, list[str]]:
    return {**_doomed(log_id, newest, found), "the last": [names.cut_key(log_id, newest.version)]}


def _carry_to_come(log_id: str, newest: LogCut, found: LogListing) -> dict[str, list[str]]:
    return {**_doomed(log_id, newest, found), "carry": [key for key in sorted(found.carry) if key not in newest.carry]}


def _up_to_marks(log_id: str, newest: LogCut, found: LogListing) -> dict[str, list[str]]:
    upto = max([newest.upto, *map(position_of, newest.settled.values())])
    return _doomed(log_id, replace(newest, upto=upto), found)


# --- keeping for subscribers


def _keeps_nothing(*_: object) -> dict[HistoryObject, None]:
    return {}


def _forgets_silently(*arguments: Any) -> History:
    return replace(_history(*arguments), forgotten=NOTHING)


def _live_rows_alone(seen: Trail, user: str, after: int) -> list[RowRange]:
    found = [each for header in seen.view.run for each in header.ranges if each.user == user]
    return [each for each in found if each.last_seq > after]


# --- erasing


def _admits_everybody(*_: object) -> frozenset[str]:
    return frozenset()


def _closes_nobody(*_: object) -> None:
    return None


def _closes_one_alone(newest: LogCut, mark: str) -> LogCut | None:
    return None if newest.sealed or newest.closed == (mark,) else replace(newest, closed=(mark,))


def _opens_everybody(newest: LogCut, mark: str) -> LogCut | None:
    return replace(newest, closed=()) if mark in newest.closed and not newest.sealed else None


def _forgets_earlier_erasures(_: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    return dict(more)


def _fills_one_less(store: ObjectStore, log_id: str, new_id: NewId, segment_format: int) -> int:
    with patch.object(fill, "PROBES", put.PROBES - 1):
        return _fill(store, log_id, new_id, segment_format)


def _fills_nothing(store: ObjectStore, log_id: str, *_: object) -> int:
    found = names.listings(each.key for each in store.list(names.segments(log_id))).get(log_id, LogListing())
    return max(found.last_position, cut.newest_cut(store, log_id).upto)


def _drops_the_carry(seen: LogView, _: str, mark: str, *__: object) -> NextCut:
    return NextCut(seen.last_position, (), (), {}, erased={mark: seen.last_position})


def _carries_all(seen: LogView, _: str, mark: str, kept: Mapping[HistoryObject, Header], now: datetime) -> NextCut:
    return nextcut.cut_without(seen, "nobody", mark, kept, now)


class _LeavesTheTable(Eraser):
    def fence(self, user: str, upto: int) -> None:
        self.house.open(user)


def _replaced(owner: object, name: str, wrong: Callable[..., object]) -> tuple[tuple[object, str, object], ...]:
    return ((owner, name, wrong),)


_SHORT_MEMORY = ((schedule, "_MEMORIES", (schedule.Memory(),)),)
"""One cut is kept in every schedule: rare faults show sooner."""

# A sync has to fail, and the machine to stop soon behind it: on a disk alone, and with the odds for that.
_SYNCS_FAIL = ((schedule, "_ON_DISK", schedule._ON_DISK[-1:]),)
_ON_DISK = replace(AS_IT_IS, disk=1.0, jobs=0.0)

FAULTS = (
    Fault("no look at the cuts after the put", _replaced(Puts, "_look", _no_look)),
    Fault("moves on from a put whose answer was lost", _replaced(Puts, "_find_out", _moves_on)),
    Fault("takes a lost answer for success", _replaced(Puts, "_find_out", _believes)),
    Fault("ignores whose put made the segment", _replaced(Puts, "_trace", _any_put_is_ours)),
    Fault("takes a settled segment for one that came too late", _replaced(Puts, "_verdict", _forgets_what_was_taken)),
    Fault("remembers a put before it is known whose the position is", _replaced(Puts, "_create", _keeps_at_once)),
    Fault("a conditional append lands anywhere", _replaced(Puts, "put", _anywhere)),
    Fault(
        "reads over a gap in the positions",
        ((view, "read_run", _as_listed), (view, "unlinked", _nowhere), (LogView, "last_position", property(_last_seen))),
    ),
    Fault("a view is not confirmed", _replaced(view, "newest_version", _any_version)),
    Fault("reads a chunk of whatever has the name", (*_SHORT_MEMORY, (segment, "_checked", _unchecked))),
    Fault("reads the table before the log", _replaced(Warehouse, "strong_read", _table_first)),
    Fault("commits on another version than it read", _replaced(Snapshot, "commit", _on_anything)),
    Fault("ignores the watermark", _replaced(drain, "_checked", _no_watermark)),
    Fault("marks before it commits", roles=Roles(flusher=_MarksFirst)),
    Fault("marks what failed too", roles=Roles(flusher=_MarksFailures)),
    Fault("lets positions go without a carry", _replaced(settle, "make_carry", _without_carry)),
    Fault("a cut counts without the listing", (*_SHORT_MEMORY, (settle, "make_cut", _counts_at_once))),
    Fault("the loser of a cut does not read again", _replaced(settle, "make_cut", _does_not_read_again)),
    Fault("removes segments before the cut", _replaced(settle, "make_cut", _cleans_first)),
    Fault("removes the newest cut too", _replaced(clean, "_doomed", _newest_too)),
    Fault("removes carry of a cut to come", _replaced(clean, "_doomed", _carry_to_come)),
    Fault("a conditional append without its look at the cuts", _replaced(Puts, "_choose", _chooses_blindly)),
    Fault("ignores links", _replaced(view, "unlinked", _nowhere), replace(AS_IT_IS, loses=0.5)),
    Fault(
        "acknowledges at a position that was given up",
        _replaced(LogCut, "covers", _takes_what_was_given_up),
        replace(AS_IT_IS, loses=1.0),
    ),
    Fault("settles before the sync", roles=replace(AS_IT_IS, flusher=_SettlesUnsynced)),
    Fault("removes below a cut that is not durable", (*_SYNCS_FAIL, (clean, "confirm", _confirms_nothing)), _ON_DISK),
    Fault(
        "commits what is not durable in the log",
        (*_SYNCS_FAIL, (actors, "make_durable", _confirms_nothing), (light, "make_durable", _confirms_nothing)),
        _ON_DISK,
    ),
    Fault("acknowledges before the directory is synced", _replaced(SimObjects, "_sync", _syncs_no_directory)),
    Fault("believes what is found after a lost answer", (*_SYNCS_FAIL, (SimObjects, "confirm", _confirms_nothing)), _ON_DISK),
    Fault(
        "one kept cut only",
        ((clean, "is_old", _keeps_one), (view, "is_old", _keeps_one)),
    ),
    Fault("no look for closed users behind a put", _replaced(Puts, "refused", _refuses_before_the_put_alone)),
    Fault("an erasure one position short", _replaced(closing, "fill", _fills_one_less), replace(AS_IT_IS, erases=1.0)),
    Fault("earlier erasures are forgotten at a settle", _replaced(settle, "remember_erased", _forgets_earlier_erasures)),
    Fault("closing one user opens the others", _replaced(closing, "_closed", _closes_one_alone)),
    Fault("opening one user opens all", _replaced(closing, "_opened", _opens_everybody)),
    Fault("a large call becomes several segments", _replaced(LogWriter, "append_parcels", _in_several)),
    Fault("removes what is staged and not yet named", _replaced(clean, "_doomed", _sweeps_the_stage)),
    Fault(
        "names what was staged before an erasure",
        ((StagedBatch, "segment", _forgets_when_it_was_staged),),
        replace(AS_IT_IS, erases=1.0),
    ),
    Fault("an erasure leaves what is staged", _replaced(closing, "remove_of", _nowhere)),
    Fault("takes rows of a user who is closed", _replaced(Puts, "refused", _admits_everybody)),
    Fault("erases without closing", _replaced(closing, "_closed", _closes_nobody)),
    Fault("erases without filling the next positions", _replaced(closing, "fill", _fills_nothing)),
    Fault("erases the rows of others too", _replaced(closing, "cut_without", _drops_the_carry)),
    Fault("carries the rows of the erased user", _replaced(closing, "cut_without", _carries_all)),
    Fault("rows in the table stay", roles=Roles(eraser=_LeavesTheTable)),
    Fault("settles without a history", _replaced(settle, "make_history", _keeps_nothing)),
    Fault("forgets history without saying so", _replaced(nextcut, "history_after", _forgets_silently)),
    Fault("follows the segments alone", _replaced(Trail, "ranges", _live_rows_alone)),
    Fault("removes segments up to the marks", _replaced(clean, "_doomed", _up_to_marks)),
)
