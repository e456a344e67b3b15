"""The log's store and the scopes' tables, in memory, as one actor sees them: every call passes through the world."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

from lakewarden.errors import Conflict, Corrupt, StorageUnavailable
from lakewarden.log.position import NOTHING
from lakewarden.storage.objects import AlreadyThere, Missing, StoredObject
from lakewarden.storage.steps import Steps
from tests.log.simulation.world import Broken, Fate, Unanswered, World

_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class SimObjects:
    """An `ObjectStore`."""

    world: World
    objects: dict[str, bytes]
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
            self.objects[key] = data
        self._answer(fate)

    def _land(self, key: str, data: bytes) -> None:
        self.world.say(f"late: create {key}{' is there' if key in self.objects else ''}")
        self.objects.setdefault(key, data)

    def confirm(self, key: str) -> None:
        """Nothing is lost here."""

    def put(self, key: str, data: bytes) -> None:
        raise AssertionError("the log never replaces an object")

    def get(self, key: str) -> bytes:
        self._answer(self._turn(f"get {key}"))
        try:
            return self.objects[key]
        except KeyError:
            raise Missing(key) from None

    def get_range(self, key: str, start: int, length: int) -> bytes:
        self._answer(self._turn(f"get {key} [{start}, +{length})"))
        try:
            return self.objects[key][start : start + length]
        except KeyError:
            raise Missing(key) from None

    def list(self, prefix: str) -> list[StoredObject]:
        """What came or went while it ran may be shown or not; only the few cuts of a log are seen at one moment."""
        self._answer(self._turn(f"list {prefix}"))
        inside = prefix + "/"
        seen = {key for key in self.objects if key.startswith(inside)}
        if not self.world.calm and not prefix.endswith("/cuts"):
            self._turn(f"list {prefix}, at its end")
            later = {key for key in self.objects if key.startswith(inside)}
            seen = (seen & later) | {key for key in sorted(seen ^ later) if self.world.rng.random() < 0.5}
        return [StoredObject(key, len(self.objects.get(key, b"")), _EPOCH) for key in sorted(seen)]

    def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            fate = self._turn(f"delete {key}")
            if fate is Fate.LATE:
                self.world.late.append(partial(self._go, key))
            else:
                self.objects.pop(key, None)
            self._answer(fate)

    def _go(self, key: str) -> None:
        self.world.say(f"late: delete {key}")
        self.objects.pop(key, None)

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


@dataclass
class Table:
    """A scope's Delta table: its newest state. Tombstones are remembered, to know what decided a key."""

    version: int = -1
    watermark: int | None = None
    winners: dict[str, Row] = field(default_factory=dict)
    applied: frozenset[int] = frozenset()
    broken: bool = False
    """It cannot be opened."""


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

    def _turn(self, what: str) -> Fate:
        try:
            return self.world.turn(what)
        except Unanswered:
            raise StorageUnavailable(f"{what}: no answer") from None


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
