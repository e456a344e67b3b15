"""The log's store and the scopes' tables, in memory, as one actor sees them: every call passes through the world."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

from lakewarden.errors import Conflict, Corrupt, StorageUnavailable
from lakewarden.log.position import NOTHING
from lakewarden.storage.objects import AlreadyThere, Missing, ObjectStore, StoredObject
from lakewarden.storage.steps import Steps
from tests.log.simulation.world import Broken, Fate, Unanswered, World

_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class Disk:
    """What is seen and not yet durable: names that came or went since their directory was synced."""

    came: set[str] = field(default_factory=set)
    gone: dict[str, bytes] = field(default_factory=dict)

    def sync(self, directory: str) -> None:
        self.came = {key for key in self.came if _directory(key) != directory}
        self.gone = {key: data for key, data in self.gone.items() if _directory(key) != directory}

    def crash(self, objects: dict[str, bytes], rng: random.Random) -> None:
        """Each of them is kept or dropped."""
        for key in sorted(self.came):
            if rng.random() < 0.5:
                objects.pop(key, None)
        for key in sorted(self.gone):
            if rng.random() < 0.5:
                objects.setdefault(key, self.gone[key])


@dataclass(frozen=True)
class SimObjects(ObjectStore):
    """An `ObjectStore`."""

    world: World
    objects: dict[str, bytes]
    disk: Disk | None = None
    """None where what is acknowledged is durable, as in an object store."""
    cuts_missed: int = 0
    """Cuts that may come while the cuts are listed, each of which is shown or not; 0 where that listing shows a moment."""
    uri: str = "memory"

    def create(self, key: str, data: bytes) -> None:
        fate = self._turn(f"create {key}")
        if fate is Fate.LATE:
            self.world.late.append(lambda: self._land(key, data))
        elif key in self.objects:
            self.world.say("  is there")
            if fate is Fate.DONE:
                raise AlreadyThere(key)
        else:
            self._make(key, data)
            if fate is Fate.DONE:
                self._sync(key)
        self._answer(fate)

    def confirm(self, key: str) -> None:
        if key not in self.objects:
            raise Missing(key)
        self._sync(key)

    def sync(self) -> None:
        """All of it, as one call of the system does."""
        if self.disk is not None:
            self._answer(self._turn("sync everything"))
            self.disk.came.clear()
            self.disk.gone.clear()

    def _make(self, key: str, data: bytes) -> None:
        self.objects[key] = data
        if self.disk is not None:
            self.disk.came.add(key)

    def _sync(self, key: str) -> None:
        if self.disk is not None:
            self._answer(self._turn(f"sync {_directory(key)}/"))
            self.disk.sync(_directory(key))

    def _land(self, key: str, data: bytes) -> None:
        self.world.say(f"late: create {key}{' is there' if key in self.objects else ''}")
        if key not in self.objects:
            self._make(key, data)

    def put(self, key: str, data: bytes) -> None:
        raise AssertionError("the log never replaces an object")

    def get(self, key: str) -> bytes:
        self._answer(self._turn(f"get {key}"))
        try:
            return self.objects[key]
        except KeyError:
            raise Missing(key) from None

    def get_dated(self, key: str) -> tuple[bytes, datetime]:
        return self.get(key), _EPOCH

    def get_range(self, key: str, start: int, length: int) -> bytes:
        self._answer(self._turn(f"get {key} [{start}, +{length})"))
        try:
            return self.objects[key][start : start + length]
        except KeyError:
            raise Missing(key) from None

    def list(self, prefix: str) -> list[StoredObject]:
        """What came or went while it ran may be shown or not. A few cuts are seen at one moment, whatever else is listed: they
        are one directory, or part of one answer."""
        self._answer(self._turn(f"list {prefix}"))
        seen = self._below(prefix)
        if not self.world.calm and (self.cuts_missed or not prefix.endswith("/cuts")):
            self._turn(f"list {prefix}/, at its end")
            seen = self._torn(seen, self._below(prefix))
        return [StoredObject(key, len(self.objects.get(key, b"")), _EPOCH) for key in sorted(seen)]

    def _below(self, prefix: str) -> set[str]:
        return {key for key in self.objects if key.startswith(f"{prefix}/")}

    def _torn(self, first: set[str], last: set[str]) -> set[str]:
        """What a listing shows between two moments."""
        cuts, moment = set[str](), last
        if sum("/cuts/" in key for key in last - first) > self.cuts_missed:
            cuts, moment = {key for key in first | last if "/cuts/" in key}, self.world.rng.choice((first, last))
        torn = {key for key in sorted((first ^ last) - cuts) if self.world.rng.random() < 0.5}
        return (first & last) | torn | (cuts & moment)

    def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            fate = self._turn(f"delete {key}")
            if fate is Fate.LATE:
                self.world.late.append(partial(self._go, key))
            else:
                self._take_away(key)
            self._answer(fate)

    def _go(self, key: str) -> None:
        self.world.say(f"late: delete {key}")
        self._take_away(key)

    def _take_away(self, key: str) -> None:
        data = self.objects.pop(key, None)
        if self.disk is not None and data is not None and key not in self.disk.came:
            self.disk.gone[key] = data

    def _turn(self, what: str) -> Fate:
        try:
            return self.world.turn(what)
        except Unanswered:
            raise StorageUnavailable(f"{what}: no answer") from None

    def _answer(self, fate: Fate) -> None:
        if fate is not Fate.DONE:
            raise StorageUnavailable("the answer was lost")


@dataclass(frozen=True)
class Row:
    """One row of the log. `value` is None in a tombstone; `id` tells rows apart for the journal."""

    id: int
    key: str
    value: int | None
    seq: int = NOTHING
    before: int | None = None
    """The `id` of the row before it where its writer keeps that, and 0 where there was none."""


@dataclass
class Table:
    """A scope's Delta table: its newest state. Tombstones are remembered, to know what decided a key."""

    version: int = -1
    watermark: int | None = None
    winners: dict[str, Row] = field(default_factory=dict)
    applied: frozenset[int] = frozenset()
    broken: bool = False
    """It cannot be opened."""
    past: dict[int, dict[str, Row]] = field(default_factory=dict)
    """What each version had."""
    synced: list[tuple[int, int | None, dict[str, Row], frozenset[int]]] = field(default_factory=list)
    """Its states since it was last synced, the one then first: a crash leaves one of them."""

    def __post_init__(self) -> None:
        self.synced = [self.state]

    @property
    def upto(self) -> int:
        return NOTHING if self.watermark is None else self.watermark

    @property
    def state(self) -> tuple[int, int | None, dict[str, Row], frozenset[int]]:
        return self.version, self.watermark, self.winners, self.applied

    def changed(self) -> None:
        self.past[self.version] = self.winners
        self.synced.append(self.state)

    def sync(self) -> None:
        self.synced = [self.state]

    def crash(self, rng: random.Random) -> None:
        self.version, self.watermark, self.winners, self.applied = rng.choice(self.synced)


@dataclass
class Snapshot:
    """A `ColdScope`: the table as it was when it was opened, and the strict commit on top of that."""

    world: World
    table: Table
    opened: Table
    saw: Callable[[list[Row]], None]

    def watermark(self) -> int | None:
        return self.opened.watermark

    def commit(self, rows: list[Row], end: int) -> Steps[None]:
        if self._turn(f"write {[row.id for row in rows]} for version {self.opened.version + 1}") is not Fate.DONE:
            raise StorageUnavailable("the file is not there, or nobody knows")
        yield "memory://tables"
        fate = self._turn(f"commit {[row.id for row in rows]} up to {end >> 28} on version {self.opened.version}")
        if fate is Fate.LATE:
            self.world.late.append(lambda: self._late(rows, end))
        else:
            if self.table.version != self.opened.version:
                raise Conflict("another commit came between")
            self._apply(rows, end)
        if fate is not Fate.DONE:
            raise StorageUnavailable("the answer was lost")

    def fence(self, end: int) -> None:
        """Empties the table in a strict commit, as a fence does, and settles the log up to `end`."""
        if self._turn(f"fence up to {end >> 28} on version {self.opened.version}") is not Fate.DONE:
            raise StorageUnavailable("no answer")
        if self.table.version != self.opened.version:
            raise Conflict("another commit came between")
        self.table.winners, self.table.version = {}, self.table.version + 1
        self.table.watermark = max(end, self.table.watermark or NOTHING)
        self.table.changed()

    def restore(self, version: int, discard_to: int | None, restored: Callable[[], None]) -> None:
        """That version's rows again, in a strict commit, which may raise the watermark; calls `restored` when it is there."""
        fate = self._turn(f"restore version {version} on version {self.opened.version}")
        if fate is Fate.LATE:
            self.world.late.append(lambda: self._restore(version, discard_to, restored))
        elif self.table.version != self.opened.version:
            raise Conflict("another commit came between")
        else:
            self._restore(version, discard_to, restored)
        if fate is not Fate.DONE:
            raise StorageUnavailable("the answer was lost")

    def _restore(self, version: int, discard_to: int | None, restored: Callable[[], None]) -> None:
        table = self.table
        if table.version != self.opened.version:
            return
        self.world.say(f"restored: version {table.version + 1} is version {version}, up to {discard_to}")
        table.winners, table.version = table.past[version], table.version + 1
        if discard_to is not None:
            table.watermark = max(discard_to, table.upto)
        table.changed()
        restored()

    def _late(self, rows: list[Row], end: int) -> None:
        self.world.say(f"late: commit {[row.id for row in rows]} on version {self.opened.version}")
        if self.table.version == self.opened.version:
            self._apply(rows, end)

    def _apply(self, rows: list[Row], end: int) -> None:
        table = self.table
        self.saw(rows)
        if twice := [row.id for row in rows if row.id in table.applied]:
            raise Broken(f"exactly once: rows {twice} are applied again")
        winners = dict(table.winners)
        for row in rows:
            if row.key in winners and winners[row.key].seq > row.seq:
                raise Broken(f"ordered: row {row.id} is applied after a later one of its key, {winners[row.key].id}")
            winners[row.key] = row
        table.winners, table.applied = winners, table.applied | {row.id for row in rows}
        table.version, table.watermark = table.version + 1, end
        table.changed()

    def _turn(self, what: str) -> Fate:
        try:
            return self.world.turn(what)
        except Unanswered:
            raise StorageUnavailable(f"{what}: no answer") from None


def _directory(key: str) -> str:
    return key.rpartition("/")[0]


def open_table(world: World, table: Table, saw: Callable[[list[Row]], None]) -> Snapshot:
    try:
        fate = world.turn(f"open table at version {table.version}")
    except Unanswered:
        fate = Fate.LOST
    if fate is not Fate.DONE:
        raise StorageUnavailable("the table cannot be opened")
    if table.broken:
        raise Corrupt("the table is broken")
    opened = Table(table.version, table.watermark, table.winners, table.applied)
    return Snapshot(world, table, opened, saw)
