"""Vacuums of real tables: what goes, and above all what stays."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from deltalake import DeltaTable, Field
from deltalake.schema import PrimitiveType

from lakewarden.base.clock import random_id
from lakewarden.catalog.target import ScopeTarget
from lakewarden.errors import Conflict, InvalidArgument, NotFound
from lakewarden.maintenance.restore import RestoreOptions
from lakewarden.maintenance.restore.scope import plan_restore
from lakewarden.maintenance.vacuum import VacuumOptions
from lakewarden.maintenance.vacuum.scope import plan_vacuum
from lakewarden.storage.open import open_store
from lakewarden.storage.steps import alone
from tests.delta.scopes import flush, paths, people, rows_of, table_of, target
from tests.fixtures.bucket import copy_tree
from tests.fixtures.change_data import counted, fed
from tests.maintenance.steps import (
    Died,
    batches,
    compact,
    data_files,
    dies,
    later,
    manifest_paths,
    operations,
    optimize,
    restore,
    set_time,
    then,
    vacuum,
)


def _compacted(path: Path) -> ScopeTarget:
    """Versions 0 to 3, of which the last made the files of the others dead."""
    scope = target(path)
    batches(scope, 3)
    compact(scope)
    return scope


_TODAY = 60
"""Days from now: stores date objects by the real time, so a history of weeks ends so late."""


def _dated(scope: ScopeTarget, *days_ago: float) -> None:
    """Dates the commits so many days before `_TODAY`, the first version first."""
    for version, days in enumerate(days_ago):
        set_time(scope, version, later(_TODAY - days)())


def _overwritten(path: Path, versions: int) -> ScopeTarget:
    """So many versions of one row, of which each made the file of the one before dead."""
    scope = target(path)
    for number in range(versions):
        flush(scope, people(1, name=f"v{number}-"), first_seq=number)
    return scope


def test_dead_files_go_after_the_retention(tmp_path: Path) -> None:
    scope = _compacted(tmp_path / "t")
    assert vacuum(scope, 6.9).outcome == "skipped"
    assert len(data_files(scope)) == 4
    dead = data_files(scope) - paths(scope)
    report = vacuum(scope, 7.1)
    assert report.outcome == "done"
    assert set(report.files) == dead
    assert report.metrics["files_deleted"] == 3
    assert data_files(scope) == paths(scope) == manifest_paths(scope)
    assert rows_of(scope) == people(*range(6))


def _change_files(scope: ScopeTarget) -> set[str]:
    return {key for key in open_store(scope.location).keys("") if key.startswith("_change_data/")}


def test_change_files_go_with_the_versions_that_they_lead_from(tmp_path: Path) -> None:
    scope = replace(target(tmp_path / "t"), change_data_feed=True)
    files: list[set[str]] = [set()]
    for number in range(4):
        flush(scope, people(1, name=f"v{number}-"), first_seq=number)
        files.append(_change_files(scope))
    nobodys = "_change_data/cdc-nobodys.parquet"
    open_store(scope.location).put(nobodys, b"of a writer that died")
    first, second, third = (after - before for before, after in pairwise(files[1:]))
    _dated(scope, 40, 30, 5, 3)
    report = vacuum(scope, _TODAY)
    assert set(report.files) >= first | {nobodys}
    assert _change_files(scope) == second | third
    assert counted(fed(scope.uri, 2, ["id"])) == {"update_preimage": 1, "update_postimage": 1}
    assert vacuum(scope, _TODAY + 10).outcome == "done"
    assert _change_files(scope) == set()
    assert rows_of(scope) == people(1, name="v3-")


def test_history_shows_the_horizon_and_the_end(tmp_path: Path) -> None:
    scope = _compacted(tmp_path / "t")
    report = vacuum(scope, 7.1)
    assert report.version == 5
    assert operations(scope)[:2] == ["VACUUM END", "VACUUM START"]
    assert report.parameters["retention_hours"] == "168"
    assert report.parameters["oldest_version"] == "3"
    assert report.parameters["horizon"].endswith("+00:00")


def test_the_horizon_is_committed_before_anything_goes(tmp_path: Path) -> None:
    scope = _compacted(tmp_path / "t")
    files = data_files(scope)
    with pytest.raises(Died):
        vacuum(scope, 8, reach=dies("after-start"))
    assert data_files(scope) == files
    assert operations(scope)[0] == "VACUUM START"
    with pytest.raises(NotFound, match="removed by a vacuum"):
        restore(scope, 1)


def test_columns_that_another_program_added_are_no_hindrance_and_stay(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    flush(scope, people(1))
    flush(scope, people(1, name="new"), first_seq=1)
    DeltaTable(scope.uri).alter.add_columns([Field("theirs", PrimitiveType("integer"))])
    assert vacuum(scope, days=20).metrics["files_deleted"] == 1
    assert [field.name for field in DeltaTable(scope.uri).schema().fields] == ["id", "name", "_seq", "theirs"]


def test_nothing_to_do_makes_no_commit(tmp_path: Path) -> None:
    scope = _compacted(tmp_path / "t")
    report = vacuum(scope)
    assert (report.outcome, report.version) == ("skipped", 3)
    assert report.reason == "a version of the last 168 hours, or a writer, may need any of its files"
    assert operations(scope)[0] == "COMPACT"
    assert vacuum(target(tmp_path / "none")).reason == "nothing was flushed yet"


def test_the_dry_run_lists_exactly_what_a_run_removes(tmp_path: Path) -> None:
    scope = _compacted(tmp_path / "t")
    plan = plan_vacuum(scope, VacuumOptions(), now=later(8)())
    listed = plan.report()
    assert (listed.outcome, len(data_files(scope))) == ("planned", 4)
    before = data_files(scope)
    done = alone(plan.run(job_id="VA-1", clock=later(8), new_id=random_id))
    assert before - data_files(scope) == set(listed.files) == set(done.files)
    assert "3 files of" in str(plan)
    assert "version 3 is the oldest that still works" in str(plan)


@pytest.mark.parametrize(
    ("table_hours", "options", "words"),
    [
        (168, VacuumOptions(167.9), "below 168"),
        (168, VacuumOptions(0), "below 168"),
        (24, VacuumOptions(), "24 hours is below 168"),
        (168, VacuumOptions(-1, force=True), "from 0 to"),
        (168, VacuumOptions(float("nan"), force=True), "from 0 to"),
    ],
)
def test_a_short_retention_has_to_be_forced(tmp_path: Path, table_hours: int, options: VacuumOptions, words: str) -> None:
    scope = _with_retention(_compacted(tmp_path / "t"), table_hours)
    with pytest.raises(InvalidArgument, match=words):
        plan_vacuum(scope, options, now=later(30)())
    assert len(data_files(scope)) == 4


def test_a_forced_short_retention(tmp_path: Path) -> None:
    scope = _with_retention(_compacted(tmp_path / "t"), 24)
    assert vacuum(scope, hours=1).outcome == "skipped"
    assert vacuum(scope, hours=0).metrics["files_deleted"] == 3
    assert rows_of(scope) == people(*range(6))


def test_the_tables_own_retention_holds(tmp_path: Path) -> None:
    scope = _with_retention(_compacted(tmp_path / "t"), 24 * 20)
    assert vacuum(scope, 19).outcome == "skipped"
    assert vacuum(scope, 21).outcome == "done"


def test_the_version_at_the_horizon_and_all_after_it_stay(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    for number in range(5):
        flush(scope, people(1, name=f"v{number}-"), first_seq=number)
    _dated(scope, 30, 20, 10, 5, 1)
    vacuum(scope, _TODAY)
    for version in (2, 3, 4):
        assert rows_of(scope, version) == [{"id": 1, "name": f"v{version}-1"}]
    assert len(data_files(scope)) == 3
    restore(scope, 2)
    with pytest.raises(NotFound, match="versions 2 to 7 still work"):
        restore(scope, 1)


def test_a_slow_clock_makes_nothing_older_than_what_it_followed(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    for number in range(4):
        flush(scope, people(1, name=f"v{number}-"), first_seq=number)
    _dated(scope, 30, 3, 20, 1)  # version 2's writer had a clock that was weeks behind
    vacuum(scope, _TODAY)
    assert [rows_of(scope, version)[0]["name"] for version in range(4)] == ["v0-1", "v1-1", "v2-1", "v3-1"]


def test_a_version_of_this_second_stays_though_all_writers_were_ten_days_slow(tmp_path: Path) -> None:
    scope = _overwritten(tmp_path / "t", 3)
    for version in range(3):
        set_time(scope, version, later(-10)())
    assert vacuum(scope).outcome == "skipped"
    assert vacuum(scope, 6.9).outcome == "skipped"
    restore(scope, 0)
    assert rows_of(scope) == people(1, name="v0-")


def test_what_slow_writers_replaced_goes_when_the_store_says_so(tmp_path: Path) -> None:
    scope = _overwritten(tmp_path / "t", 3)
    for version in range(3):
        set_time(scope, version, later(-10)())
    assert vacuum(scope, 7.1).metrics["files_deleted"] == 2
    assert data_files(scope) == paths(scope)


@pytest.mark.disk  # no object store lets its times be set
def test_a_slow_store_alone_makes_nothing_old(tmp_path: Path) -> None:
    scope = _overwritten(tmp_path / "t", 3)
    for version in range(3):
        set_time(scope, version, later()())
    for commit in (tmp_path / "t" / "_delta_log").glob("*.json"):
        _age(commit, 10)
    assert vacuum(scope).outcome == "skipped"
    assert vacuum(scope, 7.1).metrics["files_deleted"] == 2


def test_a_copy_keeps_its_files_for_one_retention(tmp_path: Path) -> None:
    scope = _overwritten(tmp_path / "t", 3)
    copy = target(tmp_path / "copy")
    copy_tree(tmp_path / "t", tmp_path / "copy")
    for version in range(3):
        set_time(copy, version, later(-30 + version)())
    assert vacuum(copy).outcome == "skipped"
    restore(copy, timestamp=later(-28.5)())
    assert rows_of(copy) == people(1, name="v1-")
    assert vacuum(copy, 7.1).metrics["files_deleted"] == 2
    assert rows_of(scope) == people(1, name="v2-")


def test_what_a_clock_that_was_years_ahead_replaced_goes_one_retention_after_a_vacuum_saw_it(tmp_path: Path) -> None:
    scope = _overwritten(tmp_path / "t", 3)
    set_time(scope, 1, later(3650)())
    seen = vacuum(scope)
    assert (seen.outcome, seen.metrics["files_deleted"], operations(scope)[0]) == ("done", 0, "VACUUM END")
    assert vacuum(scope, 6.9).outcome == "skipped"
    assert len(data_files(scope)) == 3
    assert vacuum(scope, 7.1).metrics["files_deleted"] == 2
    assert data_files(scope) == paths(scope)
    assert restore(scope, timestamp=later(7.1)()).outcome == "skipped"
    with pytest.raises(NotFound, match=f"versions {seen.version} to"):
        restore(scope, 1)


def test_a_vacuum_with_a_slow_clock_is_no_witness(tmp_path: Path) -> None:
    scope = _overwritten(tmp_path / "t", 3)
    set_time(scope, 1, later(3650)())
    seen = vacuum(scope)
    assert seen.version == 4
    for version in (0, 2, 3, 4):
        set_time(scope, version, later(-10)())
    assert vacuum(scope, 6.9).outcome == "skipped"
    assert len(data_files(scope)) == 3


def test_a_vacuum_that_was_ahead_too_is_followed_by_another(tmp_path: Path) -> None:
    scope = _overwritten(tmp_path / "t", 3)
    set_time(scope, 1, later(3650)())
    assert vacuum(scope).version == 4
    for version in (3, 4):
        set_time(scope, version, later(3650)())
    assert vacuum(scope, job_id="VA-2").version == 6
    assert vacuum(scope, 7.1, job_id="VA-3").metrics["files_deleted"] == 2


def test_a_clock_that_is_ahead_by_hours_is_waited_for(tmp_path: Path) -> None:
    scope = _overwritten(tmp_path / "t", 2)
    set_time(scope, 1, later(0.5)())
    assert vacuum(scope).outcome == "skipped"
    assert vacuum(scope, 7.4).outcome == "skipped"
    assert vacuum(scope, 7.6).metrics["files_deleted"] == 1


def test_kept_versions_stay_and_can_be_restored(tmp_path: Path) -> None:
    scope = _compacted(tmp_path / "t")
    report = vacuum(scope, 8, keep=(1,))
    assert report.parameters["keep_versions"] == "1"
    assert data_files(scope) == paths(scope) | paths(scope, 1)
    with pytest.raises(NotFound, match="versions 3 to 5 still work, and version 1"):
        restore(scope, 2)
    restore(scope, 1)
    assert rows_of(scope) == people(*range(4))


def test_a_version_that_is_kept_no_longer_goes_with_the_next_vacuum(tmp_path: Path) -> None:
    scope = _compacted(tmp_path / "t")
    vacuum(scope, 8, keep=(1,), job_id="VA-1")
    assert vacuum(scope, 9, job_id="VA-2").metrics["files_deleted"] == 2
    with pytest.raises(NotFound, match="version 1 cannot be kept"):
        vacuum(scope, 10, keep=(1,))


def test_a_later_vacuum_with_a_longer_retention_brings_nothing_back(tmp_path: Path) -> None:
    scope = _compacted(tmp_path / "t")
    vacuum(scope, 8)
    compact(scope)
    vacuum(scope, 9, hours=24 * 30)
    with pytest.raises(NotFound, match="versions 3 to"):
        restore(scope, 0)


@pytest.mark.disk
@pytest.mark.parametrize("name", ["batch-9-lost.parquet", "batch-9-lost/part-0.parquet"])
def test_a_file_that_nobody_committed_goes_when_it_is_old_enough(tmp_path: Path, name: str) -> None:
    scope = _compacted(tmp_path / "t")
    orphan = tmp_path / "t" / name
    orphan.parent.mkdir(exist_ok=True)
    orphan.write_bytes(b"half")
    _age(orphan, 6)
    assert vacuum(scope).outcome == "skipped"
    _age(orphan, 8)
    assert vacuum(scope).files == (name,)


@pytest.mark.disk
def test_no_retention_is_short_enough_to_take_a_file_that_may_still_be_committed(tmp_path: Path) -> None:
    scope = _compacted(tmp_path / "t")
    fresh = tmp_path / "t" / "batch-9-fresh.parquet"
    fresh.write_bytes(b"half")
    _age(fresh, 23 / 24)
    vacuum(scope, hours=0)
    assert fresh.exists()
    _age(fresh, 25 / 24)
    vacuum(scope, hours=0)
    assert not fresh.exists()


def test_what_is_no_data_file_stays(tmp_path: Path) -> None:
    scope = _compacted(tmp_path / "t")
    for name in ["_files/a.parquet", "notes.txt", ".hidden.parquet", "other/_delta_log/0.json", "other/part-1.parquet"]:
        path = tmp_path / "t" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
        _age(path, 400)
    kept = {path for path in (tmp_path / "t").rglob("*") if not path.name.startswith("batch-")}
    assert vacuum(scope, 8).metrics["files_deleted"] == 3
    assert kept <= set((tmp_path / "t").rglob("*"))
    assert json.loads((tmp_path / "t" / "manifest.json").read_text())["delta_version"] == 5


def test_files_that_a_restore_brought_back_stay(tmp_path: Path) -> None:
    scope = _compacted(tmp_path / "t")
    restore(scope, 1)
    vacuum(scope, 8)
    assert rows_of(scope) == people(*range(4))
    assert data_files(scope) == paths(scope)


def test_a_restore_meanwhile_wins(tmp_path: Path) -> None:
    scope = _compacted(tmp_path / "t")
    plan = plan_vacuum(scope, VacuumOptions(), now=later(8)())
    restore(scope, 1)
    with pytest.raises(Conflict, match="planned at version 3, and there is version 4 now"):
        alone(plan.run(job_id="VA-1", clock=later(8), new_id=random_id))
    assert rows_of(scope) == people(*range(4))


def test_a_restore_that_was_planned_before_the_horizon_is_refused(tmp_path: Path) -> None:
    scope = _compacted(tmp_path / "t")
    plan = plan_restore(scope, RestoreOptions(version=1), now=later()())
    meanwhile = then("after-read", lambda: vacuum(scope, 8))
    with pytest.raises(Conflict):
        alone(plan.run(job_id="RS-1", clock=later(), new_id=random_id, reach=meanwhile))
    assert rows_of(scope) == people(*range(6))


def test_a_flush_during_the_deletes_is_no_hindrance(tmp_path: Path) -> None:
    scope = _compacted(tmp_path / "t")
    report = vacuum(scope, 8, reach=then("during-deletes", lambda: batches(scope, 1, first=3)))
    assert (report.outcome, report.version) == ("done", 6)
    assert rows_of(scope) == people(*range(8))
    assert manifest_paths(scope) == paths(scope)


@pytest.mark.parametrize("step", ["after-start", "during-deletes", "after-deletes", "after-end", "after-log"])
def test_killed_at_any_step_and_run_again(tmp_path: Path, step: str) -> None:
    scope = _compacted(tmp_path / "t")
    with pytest.raises(Died):
        vacuum(scope, hours=0, reach=dies(step))
    assert rows_of(scope) == people(*range(6))
    vacuum(scope, hours=0, job_id="VA-2")
    assert data_files(scope) == paths(scope)
    assert rows_of(scope) == people(*range(6))
    with pytest.raises(NotFound, match="removed by a vacuum"):
        restore(scope, 2)


def test_a_vacuum_that_died_is_finished_by_the_next(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    for number in range(5):
        flush(scope, people(1, name=f"v{number}-"), first_seq=number)
    with pytest.raises(Died):
        vacuum(scope, hours=0, reach=dies("during-deletes"))
    vacuum(scope, hours=0, job_id="VA-2")
    assert data_files(scope) == paths(scope)


@pytest.mark.slow
@pytest.mark.disk  # counts on a checkpoint every ten commits
def test_old_log_entries_go_once_a_checkpoint_stands_for_them(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    for number in range(25):
        flush(scope, people(1, name=f"v{number}-"), first_seq=number)
    assert vacuum(scope, 29).metrics["log_files_deleted"] == 0
    planned = [int(Path(key).name[:20]) for key in plan_vacuum(scope, VacuumOptions(), now=later(31)()).log_files]
    assert planned == sorted(planned), "what is left has no gap, wherever it stops"
    report = vacuum(scope, 31)
    log = sorted(path.name for path in (tmp_path / "t" / "_delta_log").glob("*.json"))
    assert int(log[0][:20]) == 19
    assert report.metrics["log_files_deleted"] == 20  # versions 0 to 18, and the checkpoint of 9
    assert rows_of(scope) == [{"id": 1, "name": "v24-1"}]
    assert table_of(scope).version == 26
    with pytest.raises(NotFound, match="versions 24 to 26 still work"):
        restore(scope, 3)
    flush(scope, people(2), first_seq=100)
    optimize(scope)
    assert vacuum(scope, 62).outcome == "done"
    assert rows_of(scope) == [{"id": 1, "name": "v24-1"}, {"id": 2, "name": "n2"}]


@pytest.mark.slow
def test_the_log_of_kept_versions_stays(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    for number in range(25):
        flush(scope, people(1, name=f"v{number}-"), first_seq=number)
    vacuum(scope, 31, keep=(13,))
    assert rows_of(scope, 13) == [{"id": 1, "name": "v13-1"}]
    restore(scope, 13)
    assert rows_of(scope) == [{"id": 1, "name": "v13-1"}]


@pytest.mark.disk  # counts on a checkpoint every ten commits
def test_removes_that_only_a_checkpoint_remembers(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    for number in range(12):
        flush(scope, people(1, name=f"v{number}-"), first_seq=number)
    log = tmp_path / "t" / "_delta_log"
    for version in range(10):
        (log / f"{version:020d}.json").unlink()
    vacuum(scope, 8, hours=24 * 9)
    assert len(data_files(scope)) == 12
    vacuum(scope, 8)
    assert data_files(scope) == paths(scope)
    assert rows_of(scope) == [{"id": 1, "name": "v11-1"}]


def _with_retention(scope: ScopeTarget, hours: int) -> ScopeTarget:
    return ScopeTarget(**vars(scope) | {"retention_hours": hours})


def _age(path: Path, days: float) -> None:
    moment = (later()() - timedelta(days=days)).timestamp()
    os.utime(path, (moment, moment))
