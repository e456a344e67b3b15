"""Any sequence of flushes and maintenance against a dictionary, in simulated time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewarden.base.clock import random_id
from lakewarden.catalog.report import ScopeReport
from lakewarden.errors import NotFound
from lakewarden.maintenance.optimize import OptimizeOptions
from lakewarden.maintenance.optimize.procedure import plan_optimize
from lakewarden.maintenance.restore import RestoreOptions
from lakewarden.maintenance.restore.scope import plan_restore
from lakewarden.maintenance.vacuum import VacuumOptions
from lakewarden.maintenance.vacuum.scope import plan_vacuum
from lakewarden.storage.steps import alone
from tests.delta.scopes import APP, Row, flush, paths, rows_of, table_of, target
from tests.fixtures.bucket import STORE, AnyPath, fresh_place
from tests.fixtures.examples import examples
from tests.maintenance.steps import compact, data_files, manifest_paths, set_time

_RETENTION = timedelta(hours=168)


@dataclass
class World:
    """A scope, what it should hold, and what each version held, with the moment at which it was made."""

    path: AnyPath
    now: datetime = field(default_factory=lambda: datetime.now(UTC) + timedelta(hours=1))
    seq: int = 0
    rows: dict[int, str] = field(default_factory=dict)
    versions: dict[int, dict[int, str]] = field(default_factory=dict)
    made: dict[int, datetime] = field(default_factory=dict)
    needed_from: int = 0
    """The oldest version that a vacuum had to leave."""

    def __post_init__(self) -> None:
        self.scope = target(self.path, target_file_size=8_000)

    def clock(self) -> datetime:
        return self.now

    def settle(self) -> None:
        """Dates the commits that came, and compares everything."""
        table = table_of(self.scope)
        for version in range(len(self.versions), table.version + 1):
            self.versions[version] = dict(self.rows)
            self.made[version] = self.now
            set_time(self.scope, version, self.now)
        assert rows_of(self.scope) == _rows(self.rows)
        assert manifest_paths(self.scope) == paths(self.scope)
        assert table.watermark(APP) == self.seq - 1
        for version in range(self.needed_from, table.version + 1):
            assert rows_of(self.scope, version) == _rows(self.versions[version])

    def flush(self, upserts: dict[int, str], deletes: set[int]) -> None:
        gone = deletes - upserts.keys()
        batch = [{"id": key, "name": name} for key, name in upserts.items()]
        flush(self.scope, batch, first_seq=self.seq, deletes=[{"id": key} for key in gone])
        self.seq += len(batch) + len(gone)
        self.rows = {key: name for key, name in (self.rows | upserts).items() if key not in gone}

    def optimize(self, *zorder: str) -> None:
        plan = plan_optimize(self.scope, OptimizeOptions(zorder), now=self.clock())
        alone(plan.run(job_id="OP-1", clock=self.clock, new_id=random_id))

    def vacuum(self) -> None:
        plan = plan_vacuum(self.scope, VacuumOptions(), now=self.clock())
        before = _everything(self.path)
        report = alone(plan.run(job_id=f"VA-{random_id()}", clock=self.clock, new_id=random_id))
        assert before - _everything(self.path) == set(report.files) == set(plan.report().files)
        if report.outcome == "done":
            self.needed_from = self._current_at(self.now - _RETENTION)

    def restore(self, choice: int) -> None:
        version = choice % len(self.versions)
        if version < self.needed_from:
            with pytest.raises(NotFound, match=f"versions {self.needed_from} to {len(self.versions) - 1} still work"):
                self._restored(RestoreOptions(version=version))
            return
        self._restored(RestoreOptions(version=version))
        self.rows = dict(self.versions[version])

    def restore_moment(self, hours: int) -> None:
        moment = max(self.now - timedelta(hours=hours), self.made[self.needed_from])
        self._restored(RestoreOptions(timestamp=moment))
        self.rows = dict(self.versions[self._current_at(moment)])

    def _restored(self, options: RestoreOptions) -> ScopeReport:
        plan = plan_restore(self.scope, options, now=self.clock())
        return alone(plan.run(job_id="RS-1", clock=self.clock, new_id=random_id))

    def _current_at(self, moment: datetime) -> int:
        return max((version for version, made in self.made.items() if made <= moment), default=0)


Step = Callable[[World], None]
_KEYS = st.integers(0, 12)


def _flush(upserts: dict[int, str], deletes: set[int]) -> Step:
    return lambda world: world.flush(upserts, deletes)


def _wait(hours: int) -> Step:
    def wait(world: World) -> None:
        world.now += timedelta(hours=hours)

    return wait


def _restore(choice: int) -> Step:
    return lambda world: world.restore(choice)


def _restore_moment(hours: int) -> Step:
    return lambda world: world.restore_moment(hours)


def _compact(world: World) -> None:
    compact(world.scope)


def _zorder(world: World) -> None:
    world.optimize("name", "id")


_FLUSH = st.builds(_flush, st.dictionaries(_KEYS, st.sampled_from("abc"), max_size=4), st.sets(_KEYS, max_size=2))
_STEPS = st.one_of(
    _FLUSH,
    _FLUSH,
    st.builds(_wait, st.integers(1, 300)),
    st.builds(_restore, st.integers(0, 40)),
    st.builds(_restore_moment, st.integers(0, 200)),
    st.sampled_from([_compact, World.optimize, _zorder, World.vacuum]),
)


@pytest.mark.slow
@settings(max_examples=examples(60) if STORE == "disk" else 10)
@given(st.lists(_STEPS, max_size=16))
def test_any_sequence_equals_a_dictionary(steps: list[Step]) -> None:
    with fresh_place() as place:
        world = World(place / "t")
        world.flush({1: "a"}, set())
        world.settle()
        for step in steps:
            step(world)
            world.settle()
            world.now += timedelta(seconds=1)


@pytest.mark.slow
def test_a_year_of_weeks(tmp_path: Path) -> None:
    world = World(tmp_path / "t")
    world.flush({1: "a"}, set())
    world.settle()
    for week in range(20):
        for step in (_flush({week % 5: "b", week + 100: "c"}, {week % 7}), _compact, World.vacuum, _wait(24 * 9)):
            step(world)
            world.settle()
            world.now += timedelta(seconds=1)
    assert len(data_files(world.scope)) < 8
    assert len(list((tmp_path / "t" / "_delta_log").iterdir())) < 60
    with pytest.raises(NotFound, match="still work"):
        world._restored(RestoreOptions(version=0))


def _rows(rows: dict[int, str]) -> list[Row]:
    return [{"id": key, "name": name} for key, name in sorted(rows.items())]


def _everything(path: AnyPath) -> set[str]:
    """What lies there, but for the commits that come meanwhile and the manifest."""
    return {str(found.relative_to(path)) for found in path.rglob("*") if found.is_file()}
