"""Rows leave the log when they are in their table, and only then: whatever fails, sleeps, or loses its power."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest

from lakewarden import Lakehouse
from lakewarden.base.faults import Reach, no_faults
from lakewarden.base.scope import TableName
from lakewarden.catalog.report import ScopeReport
from lakewarden.catalog.state.floor_entries import ON_STORAGES
from lakewarden.delta.replay.log_objects import commit_name
from lakewarden.errors import Corrupt
from lakewarden.maintenance.engine import WorkEngine
from lakewarden.maintenance.flush.run import flush_scopes
from lakewarden.maintenance.flush_task import FlushTask
from lakewarden.maintenance.maintain import MaintenanceRun
from lakewarden.maintenance.restore import RestoreOptions
from lakewarden.maintenance.restore.procedure import PROCEDURE, TableRewind
from lakewarden.storage.steps import Steps
from lakewarden.tables.fanout import SizedWork, in_process
from lakewarden.tables.floors import LogStanding, check_floor
from lakewarden.tables.warehouse import find_table
from tests.delta.scopes import flush as flush_scope
from tests.delta.scopes import people, target
from tests.fixtures.lakes import NOTES, eventual, hot_ids, lake_fixture, log_files, make_notes, notes, scope_path, strong
from tests.fixtures.sleepers import sleeping_flush
from tests.fixtures.syncs import Syncs, written_down
from tests.maintenance.steps import Died, compact, dies, restore, vacuum

T = TypeVar("T")
R = TypeVar("R")

pytestmark = pytest.mark.disk  # they look into the directories, and at what was synced


lake = lake_fixture(make_notes)


def flush(lake: Lakehouse, reach: Reach = no_faults) -> list[ScopeReport]:
    return flush_scopes(
        lake.warehouse,
        lambda work, items: in_process(work, items, lambda done: None),
        never_large,
        lambda scope: True,
        reach=reach,
    )


def never_large(task: FlushTask) -> ScopeReport:
    raise AssertionError(f"{task.target.scope} is small")


def test_a_scope_whose_flush_failed_keeps_its_rows(lake: Lakehouse) -> None:
    table = lake.table(NOTES)
    for user in ("ann", "bob"):
        table.write(notes({1: f"of {user}"}), user=user)
    broken = Path(str(scope_path(lake, "ann")), "_delta_log")
    broken.mkdir(parents=True)
    (broken / f"{0:020d}.json").write_text('{"metaData":{}}\n')
    reports = {report.scope.user: report.fault for report in flush(lake)}
    assert (reports["bob"], reports["ann"] is None) == (None, False)
    assert (hot_ids(table, "ann"), hot_ids(table, "bob")) == ([1], [])
    (broken / f"{0:020d}.json").unlink()
    assert [report.fault for report in flush(lake)] == [None]
    assert [strong(table, user) for user in ("ann", "bob")] == [{1: "of ann"}, {1: "of bob"}]


def test_a_scope_is_on_record_before_its_first_commit(lake: Lakehouse) -> None:
    table = lake.table(NOTES)
    table.write(notes({1: "a"}), user="ann")
    with pytest.raises(Died):
        flush(lake, dies("after-data-file"))
    assert table.users() == ["ann"]


def test_a_flush_that_slept_through_a_restore_brings_no_discarded_row_back(lake: Lakehouse) -> None:
    table = lake.table(NOTES)
    table.write(notes({1: "old"}), user="ann")
    lake.flush()
    kept = [{"user": "bob", "id": number, "text": "bob's rows keep the segment in the log"} for number in range(50)]
    discarded = [{"user": "ann", "id": number, "text": "discarded"} for number in (1, 2)]
    table.write([*discarded, *kept], user_column="user")
    late = sleeping_flush(lake, "planned")
    (report,) = lake.restore(NOTES, user="ann", version=0, discard_pending=True, dry_run=False)
    assert report.fault is None
    late.wake()
    lake.flush()
    assert strong(table, "ann") == {1: "old"}


def test_a_scope_whose_flush_failed_is_not_restored(lake: Lakehouse) -> None:
    """Its pending rows would come on top later."""
    table = lake.table(NOTES)
    for text in ("first", "second"):
        table.write(notes({1: text}), user="ann")
        lake.flush()
    table.write(notes({1: "pending"}), user="ann")
    (newest,) = (path for path in Path(str(scope_path(lake, "ann"))).glob("batch-1-*.parquet"))
    kept = newest.read_bytes()
    newest.unlink()
    (report,) = lake.restore(NOTES, user="ann", version=0, dry_run=False)
    assert report.fault is not None
    newest.write_bytes(kept)
    assert strong(table, "ann") == {1: "pending"}
    assert hot_ids(table, "ann") == [1]


def test_no_scope_is_restored_where_the_log_became_corrupt_since_it_was_read(
    lake: Lakehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any scope may have rows in it that would come on top later."""
    table, warehouse = lake.table(NOTES), lake.warehouse
    for text in ("first", "second"):
        for user in ("ann", "bob"):
            table.write(notes({1: text}), user=user)
        lake.flush()
    for text in ("pending", "lost", "newest"):
        table.write(notes({2: text}), user="ann")

    def run(work: Callable[[T], Steps[R]], items: Sequence[SizedWork[T]]) -> list[R]:
        lost = [path for path in log_files(lake) if "/segments/" in path][1:2]
        warehouse.state.delete(f"log/{path}" for path in lost)
        return in_process(work, items, lambda done: None)

    catalog = warehouse.catalog.read()
    monkeypatch.setattr(WorkEngine, "run", lambda _engine, work, items: run(work, items))
    restoring = MaintenanceRun(PROCEDURE, RestoreOptions(version=0), "RS-1")
    reports = TableRewind.of(lake._parts.operator, catalog, restoring, find_table(catalog, TableName.parse(NOTES))).restored()
    assert {(report.scope.user, report.operation, report.fault and report.fault.code) for report in reports} == {
        ("ann", "restore", "CORRUPT"),
        ("bob", "restore", "CORRUPT"),
    }
    assert [eventual(table, user) for user in ("ann", "bob")] == [{1: "second"}, {1: "second"}]


def test_what_no_floor_could_note_stays_in_the_log(lake: Lakehouse) -> None:
    table = lake.table(NOTES)
    table.write(notes({1: "a"}), user="ann")
    floors = Path(lake.warehouse.uri, "data", ON_STORAGES)
    floors.write_text("in the way")
    (report,) = flush(lake)
    assert report.fault is not None
    assert hot_ids(table, "ann") == [1]
    floors.unlink()
    assert [report.fault for report in flush(lake)] == [None]
    assert (strong(table, "ann"), hot_ids(table, "ann")) == ({1: "a"}, [])


def test_a_log_that_ends_below_what_a_storage_knows_is_corrupt(lake: Lakehouse) -> None:
    table, warehouse = lake.table(NOTES).table, lake.warehouse
    lake.table(NOTES).write(notes({1: "a"}), user="ann")
    lake.flush()
    root = warehouse.root(warehouse.catalog.read().storages[table.options.storage_id])
    standing = LogStanding(warehouse.floor(table), root, table.log_id, 0)
    check_floor(warehouse.state, standing)
    shutil.rmtree(Path(warehouse.state.uri, "log", table.log_id))
    with pytest.raises(Corrupt, match="older than its data"):
        check_floor(warehouse.state, replace(standing, last_position=-1))


# What a power cut would leave


def whole(syncs: Syncs, below: Path, wanted: Callable[[Path], bool]) -> None:
    """Nothing that lies below a directory and is wanted would be lost if the power went now."""
    lost = [name for name in syncs.lost(below) if wanted(Path(name))]
    assert not lost, f"a power cut now would take {lost}"


def of_a_table(path: Path) -> bool:
    """Data files and commits, by whose loss rows are lost; a manifest is derived."""
    return path.suffix == ".parquet" or ("_delta_log" in path.parts and path.suffix == ".json" and not path.name.startswith("."))


@pytest.mark.parametrize(
    ("work", "named"),
    [
        (lambda lake: lake.flush(), "/cuts/"),
        (lambda lake: lake.erase("ann"), "/graves/"),
        (lambda lake: lake.drop_table(NOTES), "/graves/"),
    ],
    ids=["flush", "erase", "drop"],
)
def test_what_a_job_committed_is_durable_before_it_is_relied_on(
    lake: Lakehouse, work: Callable[[Lakehouse], object], named: str
) -> None:
    """Before rows are settled, or a fence is put on record and its user's name is free."""
    table = lake.table(NOTES)
    for text in ("first", "second"):
        table.write(notes({1: text}), user="ann")
        table.write(notes({1: text}), user="bob")
        if text == "first":
            lake.flush()
    data = Path(lake.warehouse.uri, "data")
    seen: list[Path] = []
    with written_down(Path(lake.warehouse.uri)) as syncs:

        def relied_on(_source: Path, name: Path) -> None:
            if named in str(name) and (named != "/cuts/" or not seen):
                seen.append(name)
                whole(syncs, data, of_a_table)

        syncs.at_name = relied_on
        work(lake)
    assert seen


def test_what_a_move_copied_is_durable_before_the_table_lies_there(lake: Lakehouse, tmp_path: Path) -> None:
    table = lake.table(NOTES)
    table.write(notes({1: "a"}), user="ann")
    lake.flush()
    lake.create_storage("cold", type="filesystem", base=str(tmp_path / "cold"))
    seen: list[object] = []
    with written_down(tmp_path) as syncs:

        def switched(_source: Path, name: Path) -> None:
            if "/catalog/" in str(name) and any((tmp_path / "cold").rglob("_delta_log/*.json")):
                seen.append(name)
                whole(syncs, tmp_path / "cold", of_a_table)

        syncs.at_name = switched
        lake.move(NOTES, "cold")
    assert seen
    assert strong(table, "ann") == {1: "a"}


def test_a_vacuum_deletes_behind_a_durable_horizon(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    for number in range(3):
        flush_scope(scope, people(1, name=f"v{number}-"), first_seq=number)
    compact(scope)
    seen: list[object] = []
    with written_down(tmp_path) as syncs:

        def deletes(place: str) -> None:
            if place == "during-deletes":
                seen.append(place)
                whole(syncs, tmp_path, lambda path: path.name == Path(commit_name(3)).name)

        vacuum(scope, days=9, reach=deletes)
    assert seen


def test_a_restore_that_copied_files_commits_them_whole(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    for number in range(2):
        flush_scope(scope, people(1, name=f"v{number}-"), first_seq=number)
    restore(scope, 0)
    assert {path.stat().st_size > 0 for path in (tmp_path / "t").glob("*.parquet")} == {True}
