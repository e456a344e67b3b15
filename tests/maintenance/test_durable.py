"""Nothing has a name before what it names is durable, few syncs serve many scopes, and no row leaves the log unproven."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lakewarden import Lakehouse
from lakewarden.base.connection import Location
from lakewarden.base.scope import Scope, TableName
from lakewarden.base.setting_sections import CompactionSettings
from lakewarden.base.settings import Settings
from lakewarden.catalog.report import ScopeReport
from lakewarden.delta.replay.log_objects import commit_name
from lakewarden.errors import LakewardenError, NotDurable
from lakewarden.maintenance.engine import WorkEngine, silent
from lakewarden.maintenance.flush.run import flush_scopes
from lakewarden.maintenance.flush_task import FlushTask
from lakewarden.storage import disk, steps
from lakewarden.storage.open import open_store
from tests.fixtures.lakes import NOTES, eventual, hot_ids, make_notes, notes, scope_path, strong
from tests.maintenance.steps import Died, dies

_USERS = [f"u{number}" for number in range(12)]

Look = Callable[[], None]


@dataclass
class _Syncs:
    """Every sync of the file system: how many there were, and what to look at before one of them."""

    looks: list[Look] = field(default_factory=list)
    fails_at: int = -1
    count: int = 0

    def __call__(self, path: Path) -> None:
        number, self.count = self.count, self.count + 1
        if number < len(self.looks):
            self.looks[number]()
        if number == self.fails_at:
            raise NotDurable(f"cannot sync {path}: no luck")


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> _Syncs:
    made = _Syncs()
    monkeypatch.setattr(disk, "_sync_file_system", made)
    return made


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lakehouse]:
    settings = Settings(compaction=CompactionSettings(min_eligible_segments=2))
    with Lakehouse.open(str(tmp_path / "lake"), settings=settings) as lake:
        yield lake


def _write(lake: Lakehouse, rows: dict[int, str]) -> None:
    lake.table(NOTES).write([{**row, "user": user} for user in _USERS for row in notes(rows)], user_column="user")


def _names(lake: Lakehouse, version: int) -> int:
    return sum((scope_path(lake, user) / commit_name(version)).exists() for user in _USERS)


def _hidden(lake: Lakehouse) -> int:
    return sum(len(list((scope_path(lake, user) / "_delta_log").glob(f".{0:010d}*"))) for user in _USERS)


def _data(lake: Lakehouse) -> int:
    return sum(len(list(scope_path(lake, user).glob("batch-*.parquet"))) for user in _USERS)


@pytest.mark.parametrize("version", [0, 1])
def test_all_is_there_before_the_sync_but_the_names(lake: Lakehouse, syncs: _Syncs, version: int) -> None:
    make_notes(lake)
    if version:
        _write(lake, {0: "before"})
        lake.flush()
    _write(lake, {1: "a", 2: "b"})
    seen: list[tuple[int, int, int]] = []

    def look() -> None:
        seen.append((_data(lake), _hidden(lake), _names(lake, version)))

    syncs.count, syncs.looks = 0, [look, look]
    assert {report.outcome for report in lake.flush()} == {"done"}
    users = len(_USERS)
    assert seen == [(users * (version + 1), users, 0), (users * (version + 1), 0, users)]
    assert syncs.count == 2, "one for the pack, one for the job"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("operation", "most"),
    [
        (lambda lake: lake.compact(NOTES), 2),
        (lambda lake: lake.optimize(NOTES, zorder=["id"]), 2),
        (lambda lake: lake.restore(NOTES, timestamp=lake.warehouse.clock(), dry_run=False), 2),
        (lambda lake: lake.vacuum(NOTES, retain_hours=0, force=True, dry_run=False), 4),
    ],
    ids=["compact", "optimize", "restore", "vacuum"],
)
def test_maintenance_syncs_once_a_step_however_many_scopes_there_are(
    lake: Lakehouse, syncs: _Syncs, operation: Callable[[Lakehouse], list[ScopeReport]], most: int
) -> None:
    make_notes(lake)
    for number in range(3):
        _write(lake, {number: "a", 9: str(number)})
        lake.flush()
    syncs.count = 0
    assert all(report.fault is None for report in operation(lake))
    assert syncs.count <= most


def test_a_failed_sync_names_nothing_and_keeps_the_rows(lake: Lakehouse, syncs: _Syncs) -> None:
    make_notes(lake)
    _write(lake, {1: "a"})
    syncs.count, syncs.fails_at = 0, 0
    reports = lake.flush()
    assert {report.fault.code for report in reports if report.fault} == {"STORAGE_UNAVAILABLE"}
    assert len(reports) == len(_USERS)
    assert (_names(lake, 0), _hidden(lake)) == (0, 0)
    table = lake.table(NOTES)
    assert all(hot_ids(table, user) for user in _USERS)
    syncs.fails_at = -1
    assert {report.outcome for report in lake.flush()} == {"done"}
    assert all(strong(table, user) == eventual(table, user) == {1: "a"} for user in _USERS)


def test_a_failed_sync_of_one_disk_holds_back_no_scope_on_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def sync_each(uris: Iterable[str]) -> dict[str, LakewardenError]:
        return {uri: NotDurable("no luck") for uri in uris if "bob" in uri}

    with Lakehouse.open(str(tmp_path / "lake")) as lake:
        table = make_notes(lake)
        for user in ("ann", "bob"):
            table.write(notes({1: "a"}), user=user)
        with monkeypatch.context() as patch:
            patch.setattr(steps, "sync_each", sync_each)
            reports = lake.flush()
        assert {report.scope.user: report.outcome for report in reports} == {"ann": "done", "bob": "failed"}
        assert [one.user for one in lake.pending()] == ["bob"]


# Before rows leave the log


def _without_settling(lake: Lakehouse, rows: dict[int, str]) -> None:
    """A flush that commits and dies before its log is settled."""
    lake.table(NOTES).write(notes(rows), user="ann")
    run = WorkEngine(lake.warehouse.settings, silent, None).run
    with pytest.raises(Died):
        flush_scopes(lake.warehouse, run, _too_large, lambda scope: True, reach=dies("after-commits"))


def _too_large(task: FlushTask) -> ScopeReport:
    raise AssertionError(f"{task.target.scope} is small")


_LOST: dict[str, Callable[[bytes], bytes | None]] = {
    "gone": lambda data: None,
    "empty": lambda data: b"",
    "cut off": lambda data: data[:-1],
    "longer": lambda data: data + b"0",
}


@pytest.mark.both_stores
@pytest.mark.parametrize("state", _LOST)
@pytest.mark.parametrize("more", [False, True], ids=["no new rows", "new rows"])
def test_rows_whose_file_is_lost_stay_in_the_log(warehouse_uri: str, state: str, *, more: bool) -> None:
    with Lakehouse.open(warehouse_uri) as lake:
        table = make_notes(lake)
        _without_settling(lake, {1: "a", 2: "b"})
        if more:
            table.write(notes({3: "c"}), user="ann")
        (batch,) = [key for key in _keys(lake) if "batch-" in key]
        place = open_store(_ann(lake))
        whole = place.get(batch)
        damaged = _LOST[state](whole)
        place.delete([batch])
        if damaged is not None:
            place.put(batch, damaged)
        before = _keys(lake)
        (report,) = lake.flush()
        assert report.fault is not None
        assert (report.fault.code, batch in report.fault.message) == ("CORRUPT", True)
        assert [(one.user, one.rows) for one in lake.pending()] == [("ann", 3 if more else 2)]
        assert _keys(lake) == before, "nothing is written for a scope that cannot be flushed"

        place.put(batch, whole)
        (report,) = lake.flush()
        assert report.fault is None
        assert lake.pending() == []
        assert eventual(table, "ann") == {1: "a", 2: "b"} | ({3: "c"} if more else {})


def test_files_of_older_rows_are_no_matter_of_this_flush(warehouse_uri: str) -> None:
    with Lakehouse.open(warehouse_uri) as lake:
        table = make_notes(lake)
        table.write(notes({1: "old"}), user="ann")
        lake.flush()
        (old,) = [key for key in _keys(lake) if "batch-" in key]
        _without_settling(lake, {2: "b"})
        open_store(_ann(lake)).delete([old])
        assert [report.fault for report in lake.flush()] == [None]
        assert lake.pending() == []


def _ann(lake: Lakehouse) -> Location:
    return lake.warehouse.target(lake.warehouse.catalog.read(), Scope(TableName.parse(NOTES), "ann")).location


def _keys(lake: Lakehouse) -> list[str]:
    return [found.key for found in open_store(_ann(lake)).list("")]
