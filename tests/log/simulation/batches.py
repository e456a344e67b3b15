"""Batches that bear an identity, published by a query and its doubles, and the feed of what all users wrote."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import groupby
from typing import NamedTuple, cast

from lakewarden.errors import BeingErased, Conflict, Corrupt, LakewardenError, NotFound, StorageUnavailable
from lakewarden.log.objects.cache import HeaderCache
from lakewarden.log.objects.cuts.settle import CutTerms
from lakewarden.log.objects.gather import Gathering
from lakewarden.log.objects.group import parcels_of
from lakewarden.log.objects.put import Puts, WriterTerms
from lakewarden.log.objects.staging import put_object
from lakewarden.log.objects.trail import Trail, read_trail
from lakewarden.log.objects.writer import LogWriter
from lakewarden.log.once import StagedPiece, Staging, WriterBatch
from lakewarden.log.position import NOTHING, Receipt
from lakewarden.storage.objects import Missing, ObjectStore
from lakewarden.tables.changes.feed import upto_of
from tests.log.simulation.actors import FORGOTTEN, LOG, Warehouse, expect
from tests.log.simulation.journal import Written
from tests.log.simulation.light import chunk_of, rows_in
from tests.log.simulation.stores import Row
from tests.log.simulation.world import Broken

_MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
_ALL_MOST_ROWS = (1, 3, 1000)


class Query:
    """A process of a streaming query: it publishes the batch behind the last one that the log has, with the same rows whichever
    process makes it."""

    def __init__(self, house: Warehouse, name: str) -> None:
        self.house = house
        self.name = name
        self.store = cast("ObjectStore", house.store)
        headers = HeaderCache()
        terms = WriterTerms(headers=headers, keeps_own=True, pause=lambda _: None)
        puts = Puts(self.store, LOG, str.upper, terms)
        gathering = Gathering(puts, house.settings, lambda: _MOMENT, house.world.new_id, lambda: None)
        self.log = LogWriter(self.store, LOG, CutTerms(house.settings, house.world.new_id), gathering, lambda: _MOMENT, headers)

    def publish(self, times: int) -> None:
        for _ in range(times):
            try:
                self._publish()
            except LakewardenError as error:
                self._failed(error)

    def finish(self) -> None:
        """In peace: what was begun is published."""
        while (self.name, self._next()) in self.house.batches:
            self._publish()

    def finished(self) -> None:
        """From now on every batch counts as acknowledged, also where the log said to its processes that it was there."""
        for (name, _), calls in self.house.batches.items():
            if name == self.name:
                for call in calls:
                    call.outcome, call.ended = "acknowledged", call.ended or self.house.world.now

    def _next(self) -> int:
        last = self.log.last_batch(WriterBatch(self.name, 0).key).number
        return 0 if last is None else last + 1

    def _publish(self) -> None:
        number = self._next()
        calls = self.house.batches.setdefault((self.name, number), []) or self._begin(number)
        self.house.world.say(f"publishes batch {number} of {self.name}: {[row.id for call in calls for row in call.rows]}")
        receipt = self._put(calls, WriterBatch(self.name, number))
        if receipt is None:
            return
        if any(call.outcome == "acknowledged" for call in calls):
            raise Broken(f"exactly once: batch {number} of {self.name} was taken twice")
        self.house.journal.acknowledge(calls, receipt, self.house.world.now, alone=True)

    def _put(self, calls: list[Written], once: WriterBatch) -> Receipt | None:
        staging = self.log.begin_batch()
        return self.log.publish(staging, self._stage(staging, calls), once)

    def _begin(self, number: int) -> list[Written]:
        rng, house = self.house.world.rng, self.house
        users = rng.sample(house.users, rng.randint(1, len(house.users)))
        made = {
            user: [house.row(rng.choice("abc"), rng.choice((1, 2, None))) for _ in range(rng.choice((1, 2, 4)))] for user in users
        }
        calls = [house.journal.begin(user, rows, house.world.now) for user, rows in sorted(made.items())]
        house.batches[self.name, number] = calls
        return calls

    def _stage(self, staging: Staging, calls: list[Written]) -> list[StagedPiece]:
        return self._stage_rows(staging, {call.user: call.rows for call in calls})

    def _stage_rows(self, staging: Staging, rows: Mapping[str, list[Row]], first: int = 0) -> list[StagedPiece]:
        """`first`: the number of the first object."""
        chunks = [chunk_of(user, mine[start : start + 2]) for user, mine in rows.items() for start in range(0, len(mine), 2)]
        pieces: list[StagedPiece] = []
        for number, parcel in enumerate(parcels_of(1, chunks, self.house.settings), first):
            pieces += put_object(self.store, LOG, staging, number, 1, [*parcel.chunks])
        return pieces

    def _failed(self, error: LakewardenError) -> None:
        house = self.house
        if isinstance(error, BeingErased):
            if not house.journal.erasures.keys() >= set(error.users):
                raise Broken("a batch is told that a user is being erased who is not") from error
        elif isinstance(error, NotFound):
            if not house.sealing:
                raise Broken("a batch for a table that is there is told that it was dropped") from error
        elif not (house.forgetful and any(each in error.message for each in FORGOTTEN)):
            expect(house, error)


class Taken(NamedTuple):
    """A batch of the feed."""

    after: int
    upto: int
    rows: list[tuple[str, Row]]


class Feed:
    """Reads what all users wrote, in batches, and some of them again: a batch follows from where it begins and ends."""

    def __init__(self, house: Warehouse) -> None:
        self.house = house
        self.cache = HeaderCache()
        self.taken: list[Taken] = []
        self.complete = True

    def read(self, times: int) -> None:
        for _ in range(times):
            try:
                self._next()
                self._again()
            except (Conflict, StorageUnavailable, Corrupt) as error:
                expect(self.house, error)
            except Missing:
                continue  # settled meanwhile: read again

    def _next(self) -> None:
        house, began = self.house, self.house.world.now
        after = self.taken[-1].upto if self.taken else NOTHING
        trail = read_trail(cast("ObjectStore", house.store), LOG, after, self.cache)
        upto = upto_of(trail.every_range(after), after, house.world.rng.choice(_ALL_MOST_ROWS), trail.end)
        house.world.say(f"takes changes beyond {after >> 28} up to {upto >> 28}")
        self.taken.append(Taken(after, upto, self._rows(trail, after, upto)))
        self.complete = self.complete and (trail.complete_after(after) or trail.cut.sealed)
        self._check(began, whole=upto == trail.end)

    def _check(self, began: int, *, whole: bool) -> None:
        found = sorted((one for each in self.taken for one in each.rows), key=lambda one: (one[0], one[1].seq))
        by_user = {user: [row for _, row in rows] for user, rows in groupby(found, key=lambda one: one[0])}
        for user, rows in by_user.items():
            self.house.journal.saw(user, rows)
        if whole and self.complete and not self.house.sealing:
            for user in self.house.users:
                self.house.journal.followed(user, began, {row.id for row in by_user.get(user, [])})

    def _again(self) -> None:
        """As Spark does with the batch that died."""
        before = self.house.world.rng.choice(self.taken)
        trail = read_trail(cast("ObjectStore", self.house.store), LOG, before.after, self.cache)
        rows = self._rows(trail, before.after, before.upto)
        gone = self.house.journal.erasures or self.house.sealing or not trail.complete_after(before.after)
        if rows != before.rows and not gone:
            raise Broken(f"the feed beyond {before.after} up to {before.upto} was {before.rows}, and is {rows}")

    def _rows(self, trail: Trail, after: int, upto: int) -> list[tuple[str, Row]]:
        found = [(each.user, row) for each in trail.every_range(after) for row in rows_in(self.house.store, each)]
        return sorted(((user, row) for user, row in found if after < row.seq <= upto), key=lambda one: one[1].seq)
