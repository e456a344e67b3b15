"""Whatever a vacuum does, pinned, tagged, retained and running work stays; and what it lists is what it removes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden import Lakehouse
from lakewarden.base.scope import Scope, TableName
from lakewarden.base.setting_sections import CompactionSettings
from lakewarden.base.settings import Settings
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.commit_log.actions import CommitChange
from lakewarden.delta.commit_log.stamp import CommitStamp
from lakewarden.delta.table import ScopeTable
from lakewarden.errors import Conflict, InvalidArgument, LakewardenError, NotFound
from lakewarden.storage.open import open_store
from lakewarden.storage.steps import alone
from lakewarden.tables.pins import Pin
from tests.fixtures.bucket import STORE, AnyPath, fresh_place
from tests.fixtures.examples import campaign
from tests.fixtures.lakes import NOTES, Rows, keys, make_notes, notes

_SETTINGS = Settings(compaction=CompactionSettings(min_eligible_segments=2))
_HOUR = timedelta(hours=1)


class World:
    """One scope in simulated time, which runs ahead of the real one that stores and commits have."""

    def __init__(self, place: AnyPath) -> None:
        self.ahead = timedelta()
        self.lake = Lakehouse.open(str(place), settings=_SETTINGS, clock=lambda: datetime.now(UTC) + self.ahead)
        self.table = make_notes(self.lake, options={"DELETED_RETENTION_HOURS": "24"})
        self.rows: Rows = {}
        self.versions: dict[int, Rows] = {}
        self.pins: list[tuple[Pin, Rows]] = []
        self.tagged: set[int] = set()
        self.write({1: "first"})

    @property
    def target(self) -> ScopeTarget:
        return self.lake.warehouse.target(self.lake.warehouse.catalog.read(), Scope(TableName.parse(NOTES), "u"))

    def write(self, rows: Rows) -> None:
        self.table.write(notes(rows), user="u")
        self.lake.flush()
        self.rows = self.rows | rows
        self._remember()

    def erase(self, key: int) -> None:
        self.table.delete(keys([key]), user="u")
        self.lake.flush()
        self.rows = {kept: text for kept, text in self.rows.items() if kept != key}
        self._remember()

    def compact(self) -> None:
        self.lake.compact(NOTES)
        self._remember()

    def wait(self, hours: int) -> None:
        self.ahead += hours * _HOUR

    def hold(self, back: int, hours: int) -> None:
        version = max(self.versions) - back
        if version not in self.versions:
            return
        try:
            pin = self.table.lease(user="u", version=version, seconds=hours * 3600)
        except NotFound:
            return
        self.pins.append((pin, self.versions[version]))

    def tag(self, back: int) -> None:
        version = max(self.versions) - back
        if version not in self.versions or version in self.tagged:
            return
        try:
            self.lake.tag(NOTES, f"t{version}", user="u", version=version)
        except NotFound:
            return
        self.tagged.add(version)

    def vacuum(self) -> None:
        orphan = "batch-9-running.parquet"
        open_store(self.target.location).replace(orphan, b"not committed yet")
        planned = self._vacuum(dry_run=True)
        before = self._files()
        removed = self._vacuum(dry_run=False)
        gone = before - self._files()
        assert gone == set(planned) == set(removed)
        assert self.ahead >= 24 * _HOUR or orphan not in gone
        self._remember()

    def _vacuum(self, *, dry_run: bool) -> tuple[str, ...]:
        (report,) = self.lake.vacuum(NOTES, force=True, dry_run=dry_run)
        assert report.fault is None
        return report.files

    def check(self) -> None:
        now = datetime.now(UTC) + self.ahead
        for pin, rows in self.pins:
            if pin.expires > now:
                assert self._read(pin.version) == rows
        for version in self.tagged:
            assert self._read(version) == self.versions[version]
        assert self._read(max(self.versions)) == self.rows

    def readable(self, version: int) -> bool:
        try:
            return self._read(version) == self.versions[version]
        except LakewardenError:
            return False

    def _read(self, version: int) -> Rows:
        table = ScopeTable.open(self.target.location, version)
        assert table is not None
        return {row["id"]: row["text"] for row in table.scan().to_pylist()}

    def _remember(self) -> None:
        newest = ScopeTable.open(self.target.location)
        assert newest is not None
        for version in range(max(self.versions, default=-1) + 1, newest.version + 1):
            self.versions[version] = dict(self.rows)

    def _files(self) -> set[str]:
        """Without the commits that a vacuum makes, and the manifest."""
        names = set(open_store(self.target.location).keys())
        return {name for name in names if name.endswith(".parquet") or "_delta_log" in name}


Step = Callable[[World], None]


def _step(name: str, *given: st.SearchStrategy[object]) -> st.SearchStrategy[Step]:
    return st.tuples(*given).map(lambda chosen: lambda world: getattr(world, name)(*chosen))


_STEPS = st.lists(
    st.one_of(
        _step("write", st.dictionaries(st.integers(0, 5), st.sampled_from("abc"), min_size=1, max_size=3)),
        _step("erase", st.integers(0, 5)),
        _step("compact"),
        _step("wait", st.sampled_from([1, 12, 25, 60])),
        _step("hold", st.integers(0, 3), st.sampled_from([1, 30, 100])),
        _step("tag", st.integers(0, 3)),
        _step("vacuum"),
    ),
    min_size=4,
    max_size=14,
)


@pytest.mark.slow
@campaign(30 if STORE == "disk" else 5, gate=10 if STORE == "disk" else 5)
@given(_STEPS)
def test_what_somebody_needs_stays(steps: list[Step]) -> None:
    with fresh_place() as place:
        world = World(place)
        try:
            for step in [*steps, World.vacuum]:
                step(world)
                world.check()
        finally:
            world.lake.close()


@pytest.fixture
def world(tmp_path: AnyPath) -> World:
    return World(tmp_path)


@pytest.mark.both_stores
def test_a_pinned_version_goes_when_the_pin_is_over(world: World) -> None:
    pin = world.table.lease(user="u", seconds=100 * 3600)
    world.write({1: "second"})
    world.wait(60)
    world.vacuum()
    assert world.readable(pin.version)
    world.wait(60)
    world.vacuum()
    assert not world.readable(pin.version)
    assert world.lake.warehouse.state.list("leases") == []


def test_a_released_version_goes(world: World) -> None:
    pin = world.table.lease(user="u", seconds=500 * 3600)
    world.write({1: "second"})
    world.wait(60)
    world.table.release(pin)
    world.vacuum()
    assert not world.readable(pin.version)


def test_what_cannot_be_pinned(world: World) -> None:
    with pytest.raises(NotFound, match="newest is 0"):
        world.table.lease(user="u", version=7, seconds=1)
    with pytest.raises(NotFound, match="no Delta table"):
        world.table.lease(user="nobody", seconds=1)
    for seconds in (0, -1, float("nan"), 1e9):
        with pytest.raises(InvalidArgument):
            world.table.lease(user="u", seconds=seconds)
    world.write({1: "second"})
    world.wait(60)
    with pytest.raises(NotFound, match="versions 1 to 1 can be pinned"):
        world.table.lease(user="u", version=0, seconds=1)


def test_a_writer_that_runs_through_a_vacuum_keeps_its_file_or_is_told(world: World) -> None:
    """Its file is no older than a moment, so it stays; and the horizon's commit makes it begin again."""
    table = ScopeTable.open(world.target.location)
    assert table is not None
    world.write({1: "second"})
    world.wait(30)
    open_store(world.target.location).replace("batch-7-ours.parquet", b"half")
    world._vacuum(dry_run=False)
    now = datetime.now(UTC)
    with pytest.raises(Conflict):
        alone(table.commit(CommitChange(_stamp()), since=now, now=now))


def _stamp() -> CommitStamp:

    return CommitStamp("FL-1", "WRITE", {}, {})
