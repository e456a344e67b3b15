"""Quiet scopes are not opened, and no scope is quiet that is unknown, whatever happens to the state."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake

from lakewarden import Column, Lakehouse
from lakewarden.base.clock import system_clock
from lakewarden.base.setting_sections import CompactionSettings, MaintenanceSettings
from lakewarden.base.settings import Settings
from lakewarden.catalog.report import ScopeReport
from lakewarden.catalog.state.floor import floor_at
from lakewarden.catalog.state.floor_entries import ON_STORAGES
from lakewarden.maintenance.plans.select import QUIET
from lakewarden.tables.upkeep_rules import FoldRule, PackRule, _ungraded
from tests.fixtures.lakes import NOTES, make_notes, notes, scope_path

pytestmark = pytest.mark.disk  # states are lost by hand, in directories

SETTINGS = Settings(compaction=CompactionSettings(min_eligible_segments=2))
USERS = ("ann", "bob", "cyd")
OTHER = "chat.others"
NOTES_COLUMNS = [Column("id", "BIGINT"), Column("text", "TEXT")]


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lakehouse]:
    with Lakehouse.open(str(tmp_path), settings=SETTINGS) as lake:
        make_notes(lake)
        for user in USERS:
            _write(lake, user, 0)
        lake.compact()
        yield lake


def _write(lake: Lakehouse, user: str, key: int) -> None:
    lake.table(NOTES).write(notes({key: "text"}), user=user)
    lake.flush()


def _opened(reports: list[ScopeReport]) -> set[str | None]:
    return {report.scope.user for report in reports if QUIET not in report.metrics}


def _quiet(reports: list[ScopeReport]) -> int:
    return sum(report.metrics.get(QUIET, 0) for report in reports)


def _known(lake: Lakehouse) -> Path:
    return Path(lake.warehouse.state.uri) / "known"


def _new_process() -> None:
    floor_at.cache_clear()


@pytest.mark.parametrize("operation", ["compact", "optimize", "vacuum"])
def test_quiet_scopes_are_reported_and_not_opened(lake: Lakehouse, operation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakewarden.delta.scope.open_place", None)
    reports = getattr(lake, operation)(NOTES)
    assert (_opened(reports), _quiet(reports)) == (set(), 3)
    assert [(report.scope.user, report.outcome) for report in reports] == [(user, "skipped") for user in sorted(USERS)]
    assert {report.reason for report in reports} == {"nothing to do, by what the state knows"}
    assert lake.plan() == []


def test_many_quiet_scopes_are_counted(lake: Lakehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakewarden.maintenance.plans.select._LISTED", 2)
    (one,) = lake.compact(NOTES)
    assert _quiet([one]) == 3
    assert (one.outcome, one.scope.user, one.reason) == (
        "skipped",
        None,
        "nothing to do in 3 scopes, by what the state knows",
    )
    assert lake.plan() == []


def test_only_what_has_something_to_do_is_opened(lake: Lakehouse) -> None:
    _write(lake, "bob", 1)
    reports = lake.compact()
    assert _opened(reports) == {"bob"}
    assert {report.scope.user: report.outcome for report in reports} == {"ann": "skipped", "bob": "done", "cyd": "skipped"}
    assert _quiet(reports) == 2
    assert _opened(lake.compact()) == set()


def test_a_named_user_and_a_look_open_all_they_name(lake: Lakehouse) -> None:
    assert [report.scope.user for report in lake.compact(NOTES, user="ann")] == ["ann"]
    assert _opened(lake.compact(NOTES, look=True)) == set(USERS)
    assert _opened(lake.optimize(NOTES, zorder=["id"])) == set(USERS), "an order is not noted"


def test_a_process_with_other_settings_finds_the_same_quiet(lake: Lakehouse, caplog: pytest.LogCaptureFixture) -> None:
    own = Settings(compaction=CompactionSettings(min_eligible_segments=3), maintenance=MaintenanceSettings(min_gain=0.1))
    with Lakehouse.open(lake.warehouse.uri, settings=own) as other:
        assert _opened(other.compact()) == _opened(other.optimize()) == set()
    assert [record.getMessage().partition(" in the")[0] for record in caplog.records] == [
        "compaction.min_eligible_segments is 2",
        "maintenance.min_gain is 0.25",
    ]


def test_another_rule_of_the_warehouse_finds_nothing_quiet(lake: Lakehouse) -> None:
    assert _opened(lake.compact(ratio=2)) == set(), "a stricter one"
    lake.alter_warehouse({"compaction.max_segments_per_run": 7, "maintenance.min_gain": 0.1})
    assert _opened(lake.compact()) == set(USERS)
    assert _opened(lake.compact()) == _opened(lake.optimize()) == set(), "a look notes what both rules say"
    lake.alter_warehouse({"maintenance.min_gain": 0.05})
    assert _opened(lake.optimize()) == set(USERS)


def test_an_upgrade_of_the_release_opens_no_scope(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def as_before(rule: FoldRule) -> int:
        tail = rule.tail
        return _ungraded("compact", tail.min_files, tail.max_files, tail.max_rows)

    with Lakehouse.open(str(tmp_path)) as lake, monkeypatch.context() as earlier:
        earlier.setattr(FoldRule, "number", property(as_before))
        earlier.setattr(PackRule, "number", property(lambda rule: _ungraded("optimize", rule.target_file_size, rule.min_gain)))
        make_notes(lake)
        for user in USERS:
            _write(lake, user, 0)
        lake.compact(look=True)
    with Lakehouse.open(str(tmp_path)) as lake:
        monkeypatch.setattr("lakewarden.delta.scope.open_place", None)
        assert _opened(lake.compact(scheduled=True)) == _opened(lake.optimize(scheduled=True)) == set()
        assert _opened(lake.compact()) == _opened(lake.optimize()) == set()


def test_a_rule_of_the_warehouse_reaches_its_scopes_a_part_at_a_time(tmp_path: Path) -> None:
    few = Settings(compaction=SETTINGS.compaction, maintenance=MaintenanceSettings(looks_per_run=2))
    with Lakehouse.open(str(tmp_path), settings=few) as lake:
        make_notes(lake)
        for user in USERS:
            _write(lake, user, 0)
        lake.alter_warehouse({"compaction.max_segments_per_run": 7})
        _write(lake, "dee", 0)
        first, second, third = (_opened(lake.compact(scheduled=True)) for _ in range(3))
        assert (len(first), len(second), len(third)) == (2, 1, 0)
        assert first | second == set(USERS), "dee was quiet by the new rule"
        lake.alter_warehouse({"compaction.max_segments_per_run": 8})
        assert _opened(lake.compact()) == {*USERS, "dee"}, "who runs it by hand, waits for no schedule"


def test_a_strangers_commit_is_missed_until_a_look_which_notes_it(lake: Lakehouse) -> None:
    path = str(scope_path(lake, "cyd"))
    write_deltalake(path, DeltaTable(path).to_pyarrow_table(), mode="append")
    assert _opened(lake.optimize()) == set()
    assert _planned(lake.optimize(look=True, dry_run=True)) == {"cyd"}
    assert _opened(lake.optimize()) == {"cyd"}


def test_a_rolling_look_finds_a_strangers_commit_a_few_scopes_at_a_time(lake: Lakehouse) -> None:
    path = str(scope_path(lake, "cyd"))
    write_deltalake(path, DeltaTable(path).to_pyarrow_table(), mode="append")
    later = Settings(compaction=SETTINGS.compaction, maintenance=MaintenanceSettings(looks_per_run=2))

    def next_week() -> datetime:
        return system_clock() + timedelta(days=8)

    with Lakehouse.open(lake.warehouse.uri, settings=later, clock=next_week) as aged:
        first, second, third = (_opened(aged.compact(dry_run=True)) for _ in range(3))
        assert (len(first), len(second), len(third)) == (2, 1, 0)
        assert first | second == set(USERS)
        assert _opened(aged.optimize(dry_run=True)) == {"cyd"}


def _all(lake: Lakehouse) -> None:
    shutil.rmtree(_known(lake))


def _half(lake: Lakehouse) -> None:
    for at, path in enumerate(sorted(_known(lake).glob("*/*"))):
        if at % 2 == 0:
            path.unlink()


def _comparisons(lake: Lakehouse) -> None:
    shutil.rmtree(_known(lake).parent / "whole")


def _both_copies(lake: Lakehouse) -> None:
    _all(lake)
    shutil.rmtree(Path(lake.warehouse.uri) / "data" / ON_STORAGES)


@pytest.mark.parametrize("lost", [_all, _half, _comparisons, _both_copies])
@pytest.mark.parametrize("process", ["same", "new"])
def test_a_state_that_was_lost_is_right_again_by_itself(lake: Lakehouse, lost: Callable[[Lakehouse], None], process: str) -> None:
    _write(lake, "bob", 1)
    before = lake.compact(look=True, dry_run=True)
    lost(lake)
    if process == "new":
        _new_process()
    after = lake.compact(dry_run=True)
    assert _planned(after) == _planned(before) == {"bob"}
    assert _planned(lake.compact(dry_run=True)) == {"bob"}
    assert _opened(lake.compact(dry_run=True)) == {"bob"}, "the others are known again"


def _planned(reports: list[ScopeReport]) -> set[str | None]:
    return {report.scope.user for report in reports if report.outcome == "planned"}


@pytest.mark.parametrize("process", ["same", "new"])
@pytest.mark.parametrize("newcomers", [(), ("dee",)])
def test_a_state_that_was_replaced_by_an_older_one_is_right_again_by_itself(
    lake: Lakehouse, tmp_path: Path, newcomers: tuple[str, ...], process: str
) -> None:
    old = tmp_path / "old"
    for family in ("known", "whole"):
        shutil.copytree(_known(lake).parent / family, old / family)
    _write(lake, "bob", 1)
    for user in newcomers:
        _write(lake, user, 0)
        _write(lake, user, 1)
    for family in ("known", "whole"):
        shutil.rmtree(_known(lake).parent / family)
        shutil.copytree(old / family, _known(lake).parent / family)
    if process == "new":
        _new_process()
    assert _planned(lake.compact(dry_run=True)) == {"bob", *newcomers}
    assert {report.scope.user for report in lake.compact() if report.outcome == "done"} == {"bob", *newcomers}
    assert (_opened(lake.compact()), _quiet(lake.compact())) == (set(), 3 + len(newcomers))


@pytest.mark.slow
def test_a_state_that_is_lost_again_and_again_hides_nothing(lake: Lakehouse) -> None:
    chance = random.Random(7)
    for turn in range(1, 9):
        for user in chance.sample(USERS, 2):
            _write(lake, user, turn)
        if chance.random() < 0.7:
            chance.choice([_half, _comparisons, _all])(lake)
        expected = _planned(lake.compact(look=True, dry_run=True)) if chance.random() < 0.3 else None
        done = {report.scope.user for report in lake.compact() if report.outcome == "done"}
        assert expected in (None, done)
        assert all(len(DeltaTable(str(scope_path(lake, user))).file_uris()) == 1 for user in USERS)


def test_only_newcomers_are_compared(lake: Lakehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakewarden.maintenance.plans.census._compared", None)
    _write(lake, "dee", 0)
    assert (_opened(lake.compact()), _quiet(lake.compact())) == (set(), 4)
    lake.warehouse.registry.add(lake.table(NOTES).table.id, ["eva", "ann"])  # of eva the state knows nothing
    assert _opened(lake.compact()) == {"eva"}
    assert (_opened(lake.compact()), _quiet(lake.compact())) == (set(), 5)
    lake.erase("eva")
    assert (_opened(lake.compact()), _quiet(lake.compact())) == (set(), 4)


@pytest.mark.slow
def test_a_comparison_outlasts_all_the_objects_that_it_named(lake: Lakehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakewarden.maintenance.plans.census._compared", None)
    monkeypatch.setattr("lakewarden.catalog.state.floor._ABSORBED", 6)
    for turn in range(1, 9):
        _write(lake, "bob", turn)
        _write(lake, "ann", turn)
        assert _opened(lake.compact(NOTES)) == {"ann", "bob"}


def test_an_erased_user_is_neither_opened_nor_counted(lake: Lakehouse) -> None:
    lake.erase("bob")
    assert _opened(lake.compact()) == set()
    assert _quiet(lake.compact()) == 2
    _write(lake, "bob", 5)
    _write(lake, "bob", 6)
    assert _opened(lake.compact()) == {"bob"}


def test_a_dropped_table_leaves_no_comparison(lake: Lakehouse) -> None:
    lake.compact()
    assert lake.warehouse.state.list("whole")
    lake.sql(f"DROP TABLE {NOTES}")
    assert not lake.warehouse.state.list("whole")
    assert not lake.warehouse.state.list("known")


@pytest.mark.slow
@pytest.mark.parametrize("whose", ["the table's", "the user's"])
@pytest.mark.parametrize("place", ["disk", pytest.param("minio", marks=pytest.mark.slow)])
def test_scopes_on_another_storage_are_as_quiet(
    lake: Lakehouse, place: str, whose: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = str(tmp_path / "elsewhere") if place == "disk" else request.getfixturevalue("s3_warehouse_uri")
    lake.create_storage("elsewhere", type="filesystem" if place == "disk" else "s3", base=base)
    options = {"STORAGE_ID": "elsewhere"} if whose == "the table's" else {"USE_USER_STORAGE": "true"}
    if whose == "the user's":
        lake.sql("CREATE USER ann WITH PASSWORD 'correct horse' ROLE user STORAGE_MODE region STORAGE_ID 'elsewhere'")
    table = lake.create_table(OTHER, type="USER", columns=NOTES_COLUMNS, primary_key=["id"], options=options)
    for turn in range(2):
        for user in USERS:
            table.write(notes({turn: "text"}), user=user)
        lake.flush(OTHER)
    assert {report.scope.user: report.outcome for report in lake.compact(OTHER)} == dict.fromkeys(USERS, "done")
    monkeypatch.setattr("lakewarden.delta.scope.open_place", None)
    assert _quiet(lake.compact(OTHER)) == _quiet(lake.optimize(OTHER)) == _quiet(lake.vacuum(OTHER)) == 3
    assert lake.plan(OTHER) == []
    (found,) = (one for one in lake.overview().tables if one.table == OTHER)
    assert (found.scopes, found.rows, found.scopes_unknown) == (3, 6, 0)
