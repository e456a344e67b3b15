"""What the processes of a warehouse do to one log: production code, with the world's store and tables below it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, cast

from lakewarden.base.setting_sections import LogSettings
from lakewarden.errors import BeingErased, Conflict, Corrupt, LakewardenError, NotFound, StorageUnavailable
from lakewarden.log.chunk import RowRange
from lakewarden.log.drain import StrongRead, drain, read_hot
from lakewarden.log.objects import names
from lakewarden.log.objects.cache import HeaderCache
from lakewarden.log.objects.cut import LogCut, decode_cut
from lakewarden.log.objects.cuts.closing import close_user, leave_out, open_user, remove_log
from lakewarden.log.objects.cuts.mend import faults_of, give_up
from lakewarden.log.objects.cuts.settle import CutTerms, settle
from lakewarden.log.objects.gather import Gathering
from lakewarden.log.objects.group import parcels_of
from lakewarden.log.objects.log_view import LogView
from lakewarden.log.objects.put import Puts, WriterTerms
from lakewarden.log.objects.trail import read_trail
from lakewarden.log.objects.view import make_durable, read_view
from lakewarden.log.objects.writer import LogWriter
from lakewarden.log.position import NOTHING, PartlyAppended, Receipt, position_of
from lakewarden.storage.objects import Missing, ObjectStore, StoredObject
from lakewarden.storage.steps import Steps, together
from tests.log.simulation.journal import Erasure, Journal, Written
from tests.log.simulation.light import SimScope, chunk_of, header_of, row_ids, rows_in
from tests.log.simulation.stores import Disk, Row, SimObjects, Snapshot, Table, open_table
from tests.log.simulation.world import Actor, Broken, Unanswered, World

LOG = "L"
COUNTER = "n"
"""Key that is read before it is written; writers that do not read leave it alone."""

FORGOTTEN = ("settled long ago", "many users were erased")
"""What an append may meet where a cut remembers only a few puts and erasures."""


@dataclass
class Warehouse:
    """One log, the tables of its scopes, and what is known of them."""

    world: World
    settings: LogSettings
    users: tuple[str, ...]
    objects: dict[str, bytes] = field(default_factory=dict)
    tables: dict[str, Table] = field(default_factory=dict)
    journal: Journal = field(default_factory=Journal)
    sealing: bool = False
    sealed_at: int | None = None
    disk: Disk | None = None
    cuts_missed: int = 0
    counted: str = "u"
    """Whose counter is raised."""
    lost: str | None = None
    """An object that was taken away."""
    lost_rows: frozenset[int] = frozenset()
    forgetful: bool = False
    """Cuts remember few puts."""
    away: bool = False
    """The tables' storage is not there."""
    was_away: bool = False
    batches: dict[tuple[str, int], list[Written]] = field(default_factory=dict)
    """By query and number, those that were begun."""
    looking: set[Actor | None] = field(default_factory=set)
    """Who goes by a look at the log: what is lost and put again meanwhile, it may not notice."""
    store: SimObjects = field(init=False)
    _rows: int = 0

    def __post_init__(self) -> None:
        self.store = SimObjects(self.world, self.objects, self.disk, self.cuts_missed)
        self.tables = {user: Table() for user in self.users}
        self.world.crashed = self.crash

    def sync(self) -> None:
        """What `storage.disk.sync` does: everything that was written is durable."""
        if self.disk is not None:
            self.store.sync()
            for table in self.tables.values():
                table.sync()

    def crash(self) -> None:
        if self.disk is not None:
            self.disk.crash(self.objects, self.world.rng)
        for user, table in self.tables.items():
            table.crash(self.world.rng)
            self.journal.restore_lost(user, table.version)

    def open(self, user: str) -> Snapshot:
        if self.away:
            raise StorageUnavailable("the tables' storage is not there")
        return open_table(self.world, self.tables[user], partial(self.journal.applies, user))

    @contextmanager
    def look_at_log(self) -> Iterator[None]:
        actor = self.world.turns
        self.looking.add(actor)
        try:
            yield
        finally:
            self.looking.discard(actor)

    def set_back(self, user: str, began: int) -> None:
        """A restore's commit is there, which was asked for then."""
        table = self.tables[user]
        before, self.world.calm = self.world.calm, True
        pending = self.look(user, HeaderCache()).rows()
        self.world.calm = before
        self.journal.saw(user, pending)
        dropped = {row.id for row in pending if row.seq <= table.upto} - table.applied
        self.journal.set_back(user, began, table.version, table.applied, dropped)

    def moment(self) -> datetime:
        """A second a step."""
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.world.now)

    def row(self, key: str, value: int | None) -> Row:
        self._rows += 1
        return Row(self._rows, key, value)

    def strong_read(self, user: str, cache: HeaderCache) -> tuple[StrongRead[list[Row], Snapshot], dict[str, Row]]:
        began = self.world.now
        read = read_hot(lambda: self.look(user, cache), lambda: self.open(user))
        return read, self.journal.strong_read(user, began, read, dropped=self.sealing)

    def look(self, user: str, cache: HeaderCache) -> SimScope:
        view = read_view(self.store, LOG, cache, (user,))
        if self.world.now % 4 == 0:  # each costs as much as a look
            self._compare(view, user)
        return SimScope.of(self.store, view, user)

    def _compare(self, view: LogView, user: str) -> None:
        """What follows an earlier view is what a new reader sees at the same moment, as far as it goes."""
        before, self.world.calm = self.world.calm, True
        try:
            fresh = read_view(self.store, LOG, HeaderCache(), (user,))
        except Corrupt:  # lost by now; who follows may not notice
            return
        finally:
            self.world.calm = before
        if fresh.cut.version != view.cut.version or self.lost is not None:
            return
        seen, there = ([found for found in _pending(each, user) if found.last_seq <= view.end] for each in (view, fresh))
        puts, fresh_puts = ([header.put_id for header in each.run[: len(view.run)]] for each in (view, fresh))
        if seen != there or puts != fresh_puts:
            raise Broken(f"a view that follows another shows {seen} of {user}, and a new one {there}")


def _pending(view: LogView, user: str) -> tuple[RowRange, ...]:
    found = view.pending_of((user,)).get(user)
    return () if found is None else found.ranges


@dataclass
class Watched:
    """The store of one writer: what its call listed and put."""

    store: SimObjects
    calls: list[Written] = field(default_factory=list)
    listed: bool = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def begin(self, calls: list[Written]) -> None:
        self.calls, self.listed = calls, False

    def list(self, prefix: str) -> list[StoredObject]:
        self.listed = self.listed or prefix.endswith("/segments")
        return self.store.list(prefix)

    def keys(self, prefix: str) -> Sequence[str]:
        return [each.key for each in self.list(prefix)]

    def create(self, key: str, data: bytes) -> None:
        self.store.create(key, data)
        if self.listed and "/segments/" in key:
            for call in self.calls:
                call.put_at = int(key.rpartition("/")[2]), self.store.world.now


class Writer:
    """A process that appends. Its clock may be wrong by an hour."""

    def __init__(self, house: Warehouse) -> None:
        self.house = house
        self.journal = house.journal
        self.world = house.world
        self.cache = HeaderCache()
        skew = timedelta(hours=house.world.rng.choice((-1, 0, 0, 1)))
        self.store = Watched(house.store)
        store, terms = cast("ObjectStore", self.store), WriterTerms(headers=self.cache, keeps_own=True, pause=lambda _: None)
        puts = Puts(store, LOG, str.upper, terms)
        moment = datetime(2026, 1, 1, tzinfo=UTC) + skew
        self.gathering = Gathering(puts, house.settings, lambda: moment, house.world.new_id, lambda: None)
        terms_of_cuts = CutTerms(house.settings, house.world.new_id)
        self.log = LogWriter(store, LOG, terms_of_cuts, self.gathering, lambda: moment, self.cache)

    def write(self, times: int) -> None:
        for _ in range(times):
            rng = self.world.rng
            users = rng.sample(self.house.users, min(len(self.house.users), rng.choice((1, 1, 2))))
            rows = {user: [self._row() for _ in range(rng.choice((1, 1, 2, 5)))] for user in users}
            self._append(rows, None)

    def count(self, times: int) -> None:
        """Raises a counter by reading it and writing what follows: none of the acknowledged ones may be lost."""
        user = self.house.counted
        for _ in range(times):
            try:
                read, decided = self.house.strong_read(user, self.cache)
            except (StorageUnavailable, Conflict, Corrupt) as error:
                expect(self.house, error)
                continue
            before = decided[COUNTER].value if COUNTER in decided else 0
            self._append({user: [self.house.row(COUNTER, (before or 0) + 1)]}, position_of(read.end))

    def _row(self) -> Row:
        rng = self.world.rng
        return self.house.row(rng.choice("abc"), rng.choice((1, 2, None)))

    def _append(self, rows: dict[str, list[Row]], after: int | None) -> None:
        began = self.world.now
        calls = [self.journal.begin(user, mine, began, whole=len(rows) == 1) for user, mine in rows.items()]
        self.store.begin(calls)
        chunks = [chunk_of(user, mine[start : start + 2]) for user, mine in rows.items() for start in range(0, len(mine), 2)]
        parcels = parcels_of(1, chunks, self.house.settings)
        self.world.say(f"appends {[(call.user, [row.id for row in call.rows]) for call in calls]} after {after}")
        try:
            receipt = self.log.append_parcels(parcels, after)
        except LakewardenError as error:
            self._failed(error, calls, after)
            return
        if self.house.sealed_at is not None and self.house.sealed_at < began:
            raise Broken("sealed: rows were acknowledged in the log of a dropped table")
        self._acknowledged(calls, receipt, alone=len(parcels) == 1 or len(rows) == 1)

    def _acknowledged(self, calls: list[Written], receipt: Receipt, *, alone: bool) -> None:
        self.world.say(f"acknowledged at {position_of(receipt.last_seq)}: {[row.id for call in calls for row in call.rows]}")
        self.journal.acknowledge(calls, receipt, self.world.now, alone=alone)

    def _failed(self, error: LakewardenError, calls: list[Written], after: int | None) -> None:
        self.world.say(f"failed: {error.message}")
        self.journal.fail(calls, self.world.now)
        if self.house.lost is not None and isinstance(error, Corrupt | StorageUnavailable):
            return
        if isinstance(error, BeingErased):
            self._being_erased(error, calls, after)
            return
        if isinstance(error, PartlyAppended):
            return  # each user's rows are in a segment of their own or not: open is all that is claimed here
        if isinstance(error, NotFound):
            if not self.house.sealing:
                raise Broken("an append to a table that is there is told that it was dropped")
        elif isinstance(error, Conflict):
            if after is None:
                raise Broken("an append that nothing stands against is refused")
            self.journal.refuse(calls)
        elif self.world.odds.fail == 0 and not (self.house.forgetful and any(each in error.message for each in FORGOTTEN)):
            raise Broken(f"an append fails although nothing fails: {error.message}")

    def _being_erased(self, error: BeingErased, calls: list[Written], after: int | None) -> None:
        """The rows of others in the same call may have been taken; those calls are open."""
        began = min(call.began for call in calls)
        for user in error.users:
            erasure = self.journal.erasures.get(user)
            if erasure is None:
                raise Broken(f"an append is told that {user} is being erased")
            if after is None and erasure.opened_at is not None and erasure.opened_at < began:
                raise Broken("an append that began after the erasure is refused")


class Flusher:
    """A process that flushes the scopes that are due, and settles them; or is killed anywhere."""

    def __init__(self, house: Warehouse) -> None:
        self.house = house
        self.cache = HeaderCache()
        self.worth = 1
        """Objects that are worth a removal."""

    def flush(self, times: int, share: float = 1.0) -> None:
        for _ in range(times):
            with self.house.look_at_log():
                self._flush(share)

    def _flush(self, share: float) -> None:
        try:
            view = read_view(self.house.store, LOG, self.cache)
            due = [user for user in sorted(view.pending) if self.house.world.rng.random() < share]
            self.flush_users(view, due)
        except (Conflict, StorageUnavailable, Corrupt) as error:
            expect(self.house, error)

    def flush_users(self, view: LogView, due: Iterable[str]) -> None:
        """Step by step together, as the fan-out of a flush does."""
        self.house.world.say(f"flushes {due} up to {view.last_position} on cut {view.cut.version}")
        make_durable(self.house.store, view)
        drained = together(self._drained(view, user) for user in due)
        self.sync()
        self.settle(view, {user: settled for user, settled in drained if settled is not None})

    def _drained(self, view: LogView, user: str) -> Steps[tuple[str, int | None]]:
        try:
            hot = SimScope.of(self.house.store, view, user, for_flush=True)
            return user, (yield from drain(hot, partial(self.house.open, user), attempts=4)).settled
        except (Conflict, StorageUnavailable, Corrupt) as error:
            expect(self.house, error, broken=self.house.tables[user].broken)
            return user, None

    def sync(self) -> None:
        self.house.sync()

    def settle(self, view: LogView, settled: dict[str, int]) -> None:
        self.house.world.say(f"settles { {user: seq >> 28 for user, seq in settled.items()} }")
        house = self.house
        now, new_id, given = house.moment(), house.world.new_id, house.settings
        settle(house.store, view, settled, CutTerms(given, new_id), now=now, cache=self.cache, worth=self.worth)


class Reader:
    """A process that reads strongly, again and again."""

    def __init__(self, house: Warehouse) -> None:
        self.house = house
        self.cache = HeaderCache()

    def read(self, times: int) -> None:
        for _ in range(times):
            user = self.house.world.rng.choice(self.house.users)
            self.house.world.say(f"reads {user}")
            try:
                self.house.strong_read(user, self.cache)
            except (Conflict, StorageUnavailable, Corrupt) as error:
                expect(self.house, error, broken=self.house.tables[user].broken)


class Follower:
    """A subscriber to one user's rows, who looks again and again, and now and then comes back after a while."""

    def __init__(self, house: Warehouse) -> None:
        self.house = house
        self.user = house.world.rng.choice(house.users)
        self.cache = HeaderCache()
        self.upto = NOTHING
        self.seen: list[Row] = []
        self.complete = True

    def follow(self, times: int) -> None:
        for _ in range(times):
            self.look()

    def look(self) -> None:
        self.house.world.say(f"follows {self.user} from {self.upto >> 28}")
        began = self.house.world.now
        try:
            trail = read_trail(self.house.store, LOG, self.upto, self.cache)
            ranges = trail.ranges(self.user, self.upto)
            rows = [row for each in ranges for row in rows_in(self.house.store, each)]
        except (Conflict, StorageUnavailable, Corrupt) as error:
            expect(self.house, error)
            return
        except Missing:
            return
        self.complete = self.complete and (trail.complete_after(self.upto) or trail.cut.sealed)
        self.seen += [row for row in rows if row.seq > self.upto]
        self.house.journal.saw(self.user, self.seen)
        self.upto = max(self.upto, trail.end)
        if self.complete and not self.house.sealing:
            self.house.journal.followed(self.user, began, {row.id for row in self.seen})


class Eraser:
    """A process that erases one user; asked again, it goes on."""

    def __init__(self, house: Warehouse) -> None:
        self.house = house

    def erase(self, user: str, tries: int) -> None:
        for _ in range(tries):
            try:
                with self.house.look_at_log():
                    self._erase(user)
            except (Conflict, StorageUnavailable, Corrupt) as error:
                expect(self.house, error)
            else:
                return

    def _erase(self, user: str) -> None:
        house, journal = self.house, self.house.journal
        house.world.say(f"erases {user}")
        erasure = journal.erasures.setdefault(user, Erasure())
        if erasure.erased_at is None:
            close_user(house.store, LOG, user.upper())
            erasure.closed_at = erasure.closed_at or house.world.now
            upto = leave_out(
                house.store, LOG, user, user.upper(), CutTerms(house.settings, house.world.new_id), now=house.moment()
            )
            trail = read_trail(house.store, LOG, NOTHING, HeaderCache())
            if trail.ranges(user, NOTHING):
                raise Broken("erased: the log still holds rows of the user")
            if house.world.calm and any(header_of(house.objects, key).of({user}) for key in house.objects if "/staged/" in key):
                raise Broken("erased: rows of the user are staged")
            erasure.upto, erasure.left_out_at = upto, house.world.now
            self.fence(user, upto)
            house.sync()
            erasure.erased_at = house.world.now
        erasure.opening = True
        open_user(house.store, LOG, user.upper())
        erasure.opened_at = erasure.opened_at or house.world.now

    def fence(self, user: str, upto: int) -> None:
        self.house.open(user).fence(upto)


class Loser:
    """Takes one object away that is needed, and then perhaps goes on without it, as a repair does."""

    def __init__(self, house: Warehouse) -> None:
        self.house = house

    def lose(self, tries: int, *, repairs: bool) -> None:
        for _ in range(tries):
            self._wait()
            needed = _needed(self.house.objects)
            if needed and all(actor is None or actor.dead for actor in self.house.looking):
                self._take(self.house.world.rng.choice(needed))
                break
        if self.house.lost is not None and repairs:
            self._wait()
            self.repair()

    def _wait(self) -> None:
        with suppress(Unanswered):
            self.house.world.turn("waits")

    def _take(self, key: str) -> None:
        house = self.house
        house.world.say(f"lost: {key}")
        house.lost, house.lost_rows = key, row_ids(house.objects, key)
        del house.objects[key]
        house.journal.lost_at = house.world.now
        house.journal.lost_position = names.number_of(key) if "/segments/" in key else None

    def repair(self) -> None:
        """What was lost is missed by nobody from the moment that it is given up."""
        try:
            faults = faults_of(self.house.store, LOG)
            if faults:
                self.house.world.say(f"repairs {faults}")
                self.house.journal.lost |= self.house.lost_rows
                give_up(self.house.store, faults)
                self.house.journal.given_up_at = self.house.world.now
        except (Conflict, StorageUnavailable) as error:
            expect(self.house, error)


def _needed(objects: dict[str, bytes]) -> list[str]:
    """Keys whose loss shows: segments above the newest cut that others follow, what they name, and carry that the cut names."""
    listing = names.listings(objects).get(LOG, names.LogListing())
    version = listing.newest_cut
    cut = decode_cut("", version, objects[names.cut_key(LOG, version)]) if version else LogCut()
    above = sorted(position for position in listing.segments if position > cut.upto)[:-1]
    keys = [names.segment_key(LOG, position) for position in above]
    staged = [each.key for key in keys for each in header_of(objects, key).ranges if each.key != key]
    return keys + staged + [key for key in cut.carry if key in objects]


def drop(house: Warehouse) -> None:
    """Drops the table: its rows go, and none comes after that."""
    house.sealing = True
    try:
        remove_log(house.store, LOG)
    except (Conflict, StorageUnavailable) as error:
        expect(house, error)
        return
    house.sealed_at = house.world.now


def expect(house: Warehouse, error: LakewardenError, *, broken: bool = False) -> None:
    """A failure is in order only where something failed."""
    house.world.say(f"failed: {error.message}")
    if isinstance(error, Corrupt) and not broken and house.lost is None:
        raise Broken(f"a sound table is called corrupt: {error.message}")
    if isinstance(error, StorageUnavailable) and house.world.odds.fail == 0 and house.lost is None and not house.was_away:
        raise Broken(f"it fails although nothing fails: {error.message}")
