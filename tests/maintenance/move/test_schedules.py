"""Flushes, moves, cancellations and reads, each interrupted by the others wherever it can be: rows are there once, always."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewarden import Lakehouse
from lakewarden.base.scope import TableName
from lakewarden.catalog.report import ScopeReport
from lakewarden.errors import InUse, Transient
from lakewarden.maintenance.flush.run import flush_scopes
from lakewarden.maintenance.flush_task import FlushTask
from lakewarden.maintenance.move.run import Mover
from lakewarden.storage.steps import Steps, alone
from lakewarden.tables.fanout import SizedWork
from tests.fixtures.bucket import STORE, fresh_place
from tests.fixtures.examples import examples
from tests.fixtures.lakes import NOTES, Rows, eventual, hot_ids, make_notes, notes, strong

T = TypeVar("T")
R = TypeVar("R")

_NAME = TableName.parse(NOTES)
_USERS = ("ann", "bob", "cyd")
_ACTIONS = ("move", "move and die", "flush", "flush and die", "cancel", "write", "write for a new user", "compact", "read")


class Died(BaseException):
    """The process was killed here."""


@dataclass
class World:
    """`plan` says what happens at which place, counted over all that runs."""

    lake: Lakehouse
    plan: dict[int, str]
    rows: dict[str, Rows] = field(default_factory=dict)
    places: int = 0
    writes: int = 0
    dying: int = 0
    """How many places are left to who is to die; 0 for nobody."""
    moving: bool = False

    def __post_init__(self) -> None:
        kind = "filesystem" if STORE == "disk" else "s3"
        self.lake.create_storage("cold", type=kind, base=f"{self.lake.warehouse.uri}-cold")
        self.table = make_notes(self.lake)
        for user in _USERS[:2]:
            self.write(user)
        self.flush()
        self.write("ann")

    def reach(self, _: str = "") -> None:
        self.places += 1
        if self.dying:
            self.dying -= 1
            if not self.dying:
                raise Died
        if action := self.plan.pop(self.places, None):
            self.act(action)

    def act(self, action: str) -> None:
        match action:
            case "move" | "move and die" | "cancel" if self.moving:
                pass  # the lock is held
            case "move":
                self.move(lambda mover: mover.move("cold"))
            case "move and die":
                self.until_death(lambda: self.move(lambda mover: mover.move("cold")))
            case "cancel":
                with suppress(InUse):
                    self.move(Mover.cancel)
            case "flush":
                self.flush()
            case "flush and die":
                self.until_death(self.flush)
            case "write":
                self.write(_USERS[self.writes % 2])
            case "write for a new user":
                self.write("cyd")
            case "compact":
                assert all(report.fault is None or report.fault.transient for report in self.lake.compact(NOTES))
            case _:
                self.read()

    def until_death(self, work: Callable[[], object]) -> None:
        before, self.dying = self.dying, 3 + self.places % 11
        with suppress(Died):
            work()
        self.dying = before

    def write(self, user: str) -> None:
        self.writes += 1
        key = self.writes % 5
        self.table.write(notes({key: f"write {self.writes}"}), user=user)
        self.rows.setdefault(user, {})[key] = f"write {self.writes}"

    def read(self) -> None:
        assert {user: strong(self.table, user) for user in self.rows} == self.rows

    def flush(self) -> None:
        reports = flush_scopes(self.lake.warehouse, self.in_turn, _too_large, lambda scope: True, reach=self.reach)
        assert all(report.fault is None or report.fault.transient for report in reports), reports

    def move(self, work: Callable[[Mover], list[ScopeReport]]) -> None:
        warehouse, self.moving = self.lake.warehouse, True
        try:
            with suppress(Transient), warehouse.locks.create().hold(_NAME.namespace, _NAME.name) as lease:
                reports = work(Mover(warehouse, self.in_turn, lease, _NAME, f"MV-{self.places}", self.reach))
                assert all(report.fault is None or report.fault.transient for report in reports), reports
        finally:
            self.moving = False

    def in_turn(self, work: Callable[[T], Steps[R]], items: Sequence[SizedWork[T]]) -> list[R]:
        done = []
        for item in items:
            self.reach()
            done.append(alone(work(item.work)))
        return done

    def end(self) -> None:
        """Whatever was interrupted is done again, and all is where it should be, once."""
        self.plan, self.dying = {}, 0
        self.read()
        self.move(lambda mover: mover.move("cold"))
        self.read()
        self.flush()
        self.read()
        assert {user: eventual(self.table, user) for user in self.rows} == self.rows
        assert not any(hot_ids(self.table, user) for user in self.rows)
        assert all(finding.passed for finding in self.lake.check())
        assert self.lake.table(NOTES).table.options.storage_id == "cold"


def _too_large(task: FlushTask) -> ScopeReport:
    raise AssertionError(f"{task.target.scope} is small")


@pytest.mark.slow
@settings(max_examples=max(examples(12), settings().max_examples // 8) if STORE == "disk" else 5)
@given(
    plan=st.dictionaries(st.integers(20, 90), st.sampled_from(_ACTIONS), max_size=8),
    first=st.lists(st.sampled_from(_ACTIONS), min_size=1, max_size=4),
)
def test_any_schedule(plan: dict[int, str], first: list[str]) -> None:
    with fresh_place() as place, Lakehouse.open(f"{place}/warehouse") as lake:
        world = World(lake, dict(plan))
        for action in first:
            world.act(action)
        world.end()
