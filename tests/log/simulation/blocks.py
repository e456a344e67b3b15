"""A process with transaction blocks: several looks at one scope, with the turns of others between, and one append for all.

The rule is that of `tables/client/block.py`: at the end, every key that is written has the `_seq` that the block saw first, and
nobody's rows were erased since the block began, or are being erased.
"""

from __future__ import annotations

from contextlib import suppress

from lakewarden.errors import Conflict, Corrupt, StorageUnavailable
from lakewarden.log.objects.view import read_view
from lakewarden.log.position import position_of
from tests.log.simulation.actors import COUNTER, LOG, Warehouse, Writer, expect
from tests.log.simulation.stores import Row
from tests.log.simulation.world import Broken, Unanswered

_ATTEMPTS = 20

Removals = tuple[tuple[str, int], ...]


class BlockWriter(Writer):
    """Raises the counter in each block, once or more, and writes other keys beside it."""

    def __init__(self, house: Warehouse) -> None:
        super().__init__(house)
        self._began = 0
        self._seen: dict[str, int | None] = {}
        self._kept: dict[str, Row] = {}

    def blocks(self, times: int) -> None:
        for _ in range(times):
            try:
                self._block(self.house.counted)
            except (StorageUnavailable, Conflict, Corrupt) as error:
                expect(self.house, error)

    def _block(self, user: str) -> None:
        self._seen, self._kept = {}, {}
        removals = self._removals()
        self._began = self.world.now
        for _ in range(self.world.rng.choice((1, 2, 3))):
            self._keep(user, COUNTER)
            if self.world.rng.random() < 0.5:
                self._keep(user, self.world.rng.choice("abc"))
            self._wait()
        self._commit(user, removals)

    def _removals(self) -> Removals:
        return read_view(self.house.store, LOG, self.cache).removals

    def _wait(self) -> None:
        with suppress(Unanswered):
            self.world.turn("waits in a block")

    def _keep(self, user: str, key: str) -> None:
        """Writes what follows from the row as the block sees it: its own, or the one beneath."""
        _, there = self.house.strong_read(user, self.cache)
        self._seen.setdefault(key, there[key].seq if key in there else None)
        mine = self._kept.get(key, there.get(key))
        self._kept[key] = self.house.row(key, ((mine.value if mine else None) or 0) + (key not in self._kept))

    def _commit(self, user: str, removals: Removals) -> None:
        rows = sorted(self._kept.values(), key=lambda row: row.key != COUNTER)
        for _ in range(_ATTEMPTS):
            read, there = self.house.strong_read(user, self.cache)
            if self.is_over(user, there, removals):
                self.world.say("a block gives up: others wrote its rows")
                return
            call = len(self.journal.calls)
            self._append({user: [self.house.row(row.key, row.value) for row in rows]}, position_of(read.end))
            if self.journal.calls[call].outcome != "refused":
                self._check(user, self.journal.calls[call].outcome == "acknowledged")
                return

    def is_over(self, user: str, there: dict[str, Row], removals: Removals) -> bool:
        """Whether the block may not be written any more."""
        view = read_view(self.house.store, LOG, self.cache)
        if view.removals != removals or user.upper() in view.closed:
            return True
        return any((there[key].seq if key in there else None) != seq for key, seq in self._seen.items())

    def _check(self, user: str, acknowledged: bool) -> None:
        erasure = self.journal.erased_before(user, self.world.now)
        if acknowledged and erasure is not None and (erasure.closed_at or 0) > self._began:
            raise Broken("erased: a block that began before an erasure was written behind it")
