"""A seeded workload on a warehouse, by the real library in this process; each step journaled before and after."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from random import Random

from lakewarden import Lakehouse
from lakewarden.base.clock import random_id, system_clock
from tests.crash.journal import Journal
from tests.crash.perform import BESIDE, FACTS, NOTES, SHARED, SHORT_LIVED, open_lake, perform, rows_of, who_of
from tests.crash.power import Power
from tests.crash.steps import Expected, Kind, ScopeKey, Step

_STEPS = 30
_WEIGHTS: dict[Kind, float] = {
    "write": 7, "delete": 2, "flush": 6, "compact": 1.5, "optimize": 1, "vacuum": 1, "restore": 2, "drop": 0.5, "erase": 0.5,
}  # fmt: skip


def work(uri: str, expected: Expected, first: int, power: Power, journal: Journal, rng: Random) -> None:
    """Works until the power is cut and a step fails, or there is nothing left to do."""
    lake = open_lake(uri, rng, power.counted(system_clock), power.counted(random_id))
    numbers = count(first)
    recorder = _Recorder(journal, numbers)
    beside = _Beside(open_lake(uri, rng), recorder, Random(rng.random()))
    power.wake_beside = beside.wanted.release
    threading.Thread(target=power.unheard(beside.work), daemon=True).start()
    drawer = _Drawer(expected, rng, f"r{first}")
    power.watch()
    for _ in range(_STEPS):
        step = drawer.next()
        power.step()
        number = recorder.begin(step)
        expected.begin(step)
        with recorder.failing(number) as outcome:
            versions = perform(lake, number, step)
        if outcome.failed:
            break
        recorder.acknowledge(number, versions)
        expected.apply(number, step, versions)
    power.end()


@dataclass
class _Outcome:
    failed: bool = False


@dataclass(frozen=True)
class _Recorder:
    """Journals steps under numbers that every writer of the process draws from."""

    journal: Journal
    numbers: count[int]

    def begin(self, step: Step) -> int:
        number = next(self.numbers)
        self.journal.begin(number, step)
        return number

    def acknowledge(self, number: int, versions: dict[ScopeKey, int]) -> None:
        self.journal.acknowledge(number, versions)

    @contextmanager
    def failing(self, number: int) -> Iterator[_Outcome]:
        outcome = _Outcome()
        try:
            yield outcome
        except Exception as error:  # noqa: BLE001  # on a dead disk any library may fail; with the power on it is told as wrong
            outcome.failed = True
            self.journal.fail(number, f"{getattr(error, 'code', type(error).__name__)}: {error}")


class _Beside:
    """Another writer, with a table and a thread of its own, that comes between two calls of an operation."""

    def __init__(self, lake: Lakehouse, recorder: _Recorder, rng: Random) -> None:
        self._table = lake.table(BESIDE)
        self._recorder = recorder
        self._rng = rng
        self.wanted = threading.Semaphore(0)
        """One for each write that is to be made."""

    def work(self) -> None:
        """Writes until it fails."""
        while self.wanted.acquire():
            step = Step("write", BESIDE, sizes=_sizes(self._rng, [f"b{self._rng.randrange(6)}"]))
            number = self._recorder.begin(step)
            with self._recorder.failing(number) as outcome:
                self._table.write(rows_of(number, step), user_column=who_of(step))
            if outcome.failed:
                return
            self._recorder.acknowledge(number, {})


class _Drawer:
    """Draws the steps."""

    def __init__(self, expected: Expected, rng: Random, prefix: str) -> None:
        self._expected = expected
        self._rng = rng
        self._prefix = prefix
        self._new = count()

    def next(self) -> Step:
        if SHORT_LIVED not in self._expected.tables:
            return Step("create", SHORT_LIVED)
        kind = self._rng.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
        draw = {"write": self._write, "delete": self._delete, "restore": self._restore, "erase": self._erase}.get(kind)
        if draw is not None:
            return draw()
        if kind == "drop":
            return Step("drop", SHORT_LIVED)
        return Step(kind, self._rng.choice(["", "", NOTES, FACTS]))

    def _write(self) -> Step:
        table = self._rng.choice([NOTES, NOTES, SHORT_LIVED, FACTS])
        if table in SHARED:
            return Step("write", table, sizes=_sizes(self._rng, [""]))
        users = self._users(table, self._rng.randrange(1, 5))
        new = [f"{self._prefix}x{next(self._new)}" for _ in range(self._rng.choice([0 if users else 2, 1, 6]))]
        return Step("write", table, sizes=_sizes(self._rng, users + new))

    def _delete(self) -> Step:
        scopes = [scope for scope, rows in self._expected.scopes.items() if rows and scope.table != BESIDE]
        if not scopes:
            return self._write()
        scope = self._rng.choice(scopes)
        keys = sorted(self._expected.scopes[scope])
        return Step("delete", scope.table, sizes={scope.user: dict.fromkeys(self._some(keys), 0)})

    def _restore(self) -> Step:
        known = [scope for scope, versions in self._expected.versions.items() if versions and scope.table != BESIDE]
        if not known:
            return Step("flush")
        scope = self._rng.choice(known)
        version = self._rng.choice(list(self._expected.versions[scope]))
        return Step("restore", scope.table, scope.user, version=version, discard=self._rng.random() < 0.3)

    def _erase(self) -> Step:
        users = self._users(NOTES, 1)
        return Step("erase", NOTES, users[0]) if users else self._write()

    def _users(self, table: str, most: int) -> list[str]:
        known = [scope.user for scope in self._expected.scopes if scope.table == table]
        return self._rng.sample(known, min(most, len(known)))

    def _some(self, keys: Sequence[int]) -> list[int]:
        return self._rng.sample(keys, self._rng.randrange(1, len(keys) + 1))


def _sizes(rng: Random, users: Sequence[str]) -> dict[str, dict[int, int]]:
    return {user: {rng.randrange(30): _size(rng) for _ in range(rng.randrange(1, 6))} for user in users}


def _size(rng: Random) -> int:
    return rng.choices([20, 400, 9_000, 120_000], [60, 30, 8, 2])[0]
