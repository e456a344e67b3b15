"""A day of a table counts each job once: whoever dies, whoever books at the same time, whatever was restored."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakewarden import Lakehouse
from lakewarden.catalog.state import fleet_days
from lakewarden.catalog.state.fleet_days import ScheduleStanding, keep_schedules
from lakewarden.catalog.state.job_log import JobLog
from lakewarden.cli.observe import warehouse_row
from lakewarden.client.fleet_page import fleet_page
from lakewarden.errors import Conflict
from lakewarden.maintenance.planning.fleet import WeekWork
from lakewarden.maintenance.planning.fleet_look import BOOK_EVERY
from lakewarden.storage.objects import ObjectStore
from tests.fixtures.clock import Clock
from tests.fixtures.lakes import NOTES, make_notes, notes

pytestmark = pytest.mark.disk

START = datetime(2026, 5, 1, 22, tzinfo=UTC)


@pytest.fixture
def clock() -> Clock:
    return Clock(START)


@pytest.fixture
def lake(tmp_path: Path, clock: Clock) -> Iterator[Lakehouse]:
    with Lakehouse.open(str(tmp_path / "warehouse"), clock=clock) as lake:
        make_notes(lake)
        yield lake


def _flush(lake: Lakehouse, *users: str) -> None:
    for user in users:
        lake.table(NOTES).write(notes({1: "a"}), user=user)
    lake.flush()


def _book(lake: Lakehouse) -> int:
    return lake.book_fleet()


def _log(lake: Lakehouse) -> JobLog:
    warehouse = lake.warehouse
    return JobLog(warehouse.state, warehouse.clock, warehouse.new_id)


def _flushes(lake: Lakehouse) -> WeekWork:
    (table,) = lake.fleet().tables
    (found,) = table.week
    return found


def _days(lake: Lakehouse) -> list[str]:
    (table,) = lake.fleet().tables
    return [one.day for one in table.days]


def test_what_is_not_kept_yet_is_counted_too(lake: Lakehouse) -> None:
    _flush(lake, "ann", "bob")
    found = _flushes(lake)
    assert (found["jobs"], found["done"], found["files_added"]) == (1, 2, 2)
    assert _book(lake) == 1
    assert _flushes(lake) == found
    _flush(lake, "ann")
    assert (_flushes(lake)["jobs"], _flushes(lake)["files_removed"]) == (2, 1)


@pytest.mark.slow
def test_a_day_is_kept_every_few_minutes_and_counts_each_job_once(lake: Lakehouse, clock: Clock) -> None:
    for expected in range(1, 6):
        _flush(lake, "ann")
        _book(lake)
        assert _book(lake) == 0
        clock.now += BOOK_EVERY
        _book(lake)
        assert _flushes(lake)["jobs"] == expected
        clock.now += BOOK_EVERY
    (table,) = lake.fleet().tables
    assert [one["jobs"] for one in table.ever] == [5]


@pytest.mark.parametrize("bad", [b"", b"garbled", b"null", b'{"work": [1]}', b'{"work": {"t": {"done": "x"}}}'])
def test_a_job_that_cannot_be_read_hides_no_other_and_is_told(lake: Lakehouse, tmp_path: Path, bad: bytes) -> None:
    for user in ("ann", "bob"):
        _flush(lake, user)
    first = min(path for path in (tmp_path / "warehouse" / "_lakewarden" / "jobs").rglob("*") if path.is_file())
    first.write_bytes(bad)
    fleet = lake.fleet()
    assert (fleet.week[0]["jobs"], fleet.jobs_unread, warehouse_row(fleet)["jobs_unread"]) == (1, 1, 1)
    assert "1 job of the last week cannot be read" in fleet_page(fleet)
    assert (fleet.verdict, fleet.is_well) == ("2 scopes: 1 job that cannot be read; all else well", False)
    assert _book(lake) == 1
    read, unread = sorted(lake.jobs(), key=lambda job: job.status)
    assert (read.status, unread.status, unread.job_type, unread.created_at) == ("completed", "failed", "flush", START)
    assert unread.message.endswith("what became of it is not known")


def test_a_job_that_cannot_be_read_is_told_for_a_week(lake: Lakehouse, clock: Clock, tmp_path: Path) -> None:
    _flush(lake, "ann")
    _flush(lake, "bob")
    clock.now = datetime.now(UTC)
    first, *_ = sorted((tmp_path / "warehouse" / "_lakewarden" / "jobs").glob("*/over"), key=lambda path: path.stat().st_mtime_ns)
    first.write_bytes(b"{")
    os.utime(first, (clock.now.timestamp() - 3600,) * 2)  # no look behind the first one reads it again
    for days, told in ((0, 1), (3, 1), (6, 1), (8, 0)):
        clock.now = datetime.now(UTC) + timedelta(days=days)
        assert lake.fleet().jobs_unread == told, days
        _book(lake)
        assert lake.fleet().jobs_unread == told, days


@pytest.mark.parametrize("moment", [10**18, -1])
def test_moments_that_cannot_be_are_as_days_that_cannot_be_read(lake: Lakehouse, moment: int) -> None:
    _flush(lake, "ann")
    _book(lake)
    state = lake.warehouse.state
    keep_schedules(state, "dagster", [ScheduleStanding("s", "sensor", "30 s", on=True)], START)
    for key in state.keys("fleet"):
        kept = json.loads(state.get(key))
        state.put(key, json.dumps(kept | {name: moment for name in ("at", "seen_to") if name in kept}).encode())
    fleet = lake.fleet()
    assert (_flushes(lake)["jobs"], fleet.schedules) == (1, ())


def test_a_job_that_shows_late_is_counted(lake: Lakehouse, clock: Clock) -> None:
    _flush(lake, "ann")
    _book(lake)
    log, table_id = _log(lake), lake.table(NOTES).table.id
    slow = replace(log, clock=lambda: clock.now - timedelta(minutes=2))
    slow.keep("optimize", "OP-slow", clock.now - timedelta(hours=3), {}, "completed", "1 done", {table_id: {"done": 1}})
    clock.now += BOOK_EVERY
    for _ in range(3):
        _book(lake)
        clock.now += BOOK_EVERY
    assert {one.operation: one["jobs"] for one in lake.fleet().week} == {"flush": 1, "optimize": 1}


def test_a_day_that_was_counted_to_a_moment_to_come_keeps_no_job_out(lake: Lakehouse, clock: Clock) -> None:
    """As an earlier release kept it, behind a job whose clock was ahead."""
    _flush(lake, "ann")
    _book(lake)
    (key,) = lake.warehouse.state.keys("fleet")
    said = json.loads(lake.warehouse.state.get(key))
    wrong = said["counted_to"] + 86_400_000
    lake.warehouse.state.put(key, json.dumps(said | {"counted_to": wrong}).encode())
    clock.forward(601)
    _flush(lake, "bob")
    assert _flushes(lake)["jobs"] == 2


def test_who_dies_between_two_tables_leaves_each_right(lake: Lakehouse, monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    lake.sql("CREATE USER TABLE chat.second (id BIGINT PRIMARY KEY)")
    _flush(lake, "ann")
    lake.table("chat.second").write([{"id": 1}], user="ann")
    lake.flush()
    kept = list[str]()

    def dying(_state: object, table_id: str, one: fleet_days.FleetDay) -> None:
        if kept:
            raise KeyboardInterrupt
        kept.append(table_id)
        fleet_days.keep_day(lake.warehouse.state, table_id, one)

    with monkeypatch.context() as patch:
        patch.setattr("lakewarden.maintenance.planning.fleet_look.keep_day", dying)
        with pytest.raises(KeyboardInterrupt):
            _book(lake)
    assert _book(lake) == 1
    clock.now += BOOK_EVERY
    assert _book(lake) == 2
    assert {one.name: [each["jobs"] for each in one.ever] for one in lake.fleet().tables} == {NOTES: [1], "chat.second": [1]}


@pytest.mark.parametrize("passed", [timedelta(minutes=1), timedelta(hours=3)], ids=["on one day", "over midnight"])
def test_two_who_book_at_once_lose_no_job(
    lake: Lakehouse, monkeypatch: pytest.MonkeyPatch, clock: Clock, passed: timedelta
) -> None:
    """One reads, the other books what came since, and only then the first one writes."""
    _flush(lake, "ann")
    written = list[str]()

    def slow(state: ObjectStore, table_id: str, one: fleet_days.FleetDay) -> None:
        if not written:
            written.append(one.day)
            with Lakehouse.open(lake.warehouse.uri, clock=clock) as other:
                _flush(other, "bob")
                clock.now += passed
                other.book_fleet()
            assert len(written) > 1
        written.append(one.day)
        fleet_days.keep_day(state, table_id, one)

    with monkeypatch.context() as patch:
        patch.setattr("lakewarden.maintenance.planning.fleet_look.keep_day", slow)
        _book(lake)
    for _ in range(3):
        assert _flushes(lake)["jobs"] == 2
        clock.now += BOOK_EVERY
        _book(lake)
    (table,) = lake.fleet().tables
    assert ([one["jobs"] for one in table.ever], [one["done"] for one in table.ever]) == ([2], [2])
    assert len(set(written)) == len(_days(lake)) == (1 if passed < timedelta(hours=1) else 2)


def test_a_restored_backup_counts_no_job_again(lake: Lakehouse, clock: Clock, tmp_path: Path) -> None:
    for _ in range(3):
        _flush(lake, "ann")
        clock.now += timedelta(hours=1)
    _book(lake)
    clock.now += timedelta(hours=1)
    copy = tmp_path / "copy"
    shutil.copytree(lake.warehouse.uri, copy, copy_function=shutil.copyfile)
    for path in copy.rglob("*"):
        os.utime(path, (path.stat().st_mtime + 86_400,) * 2)
    with Lakehouse.open(str(copy), clock=clock) as restored:
        _book(restored)
        assert _flushes(restored)["jobs"] == 3


def test_days_follow_each_other_and_old_ones_go(lake: Lakehouse, clock: Clock) -> None:
    _flush(lake, "ann")
    _book(lake)
    clock.now += timedelta(hours=3)
    _flush(lake, "bob")
    _book(lake)
    assert _days(lake) == ["2026-05-01", "2026-05-02"]
    (table,) = lake.fleet().tables
    assert [one.ever["flush"]["jobs"] for one in table.days] == [1, 2]
    clock.now += timedelta(days=40)
    _book(lake)
    kept = [found.key.rpartition("/")[2] for found in lake.warehouse.state.list(f"fleet/{table.table_id}")]
    assert kept == ["2026-05-02", "2026-06-11"], "the day before the week, however old"
    assert _days(lake) == ["2026-06-11"]
    (table,) = lake.fleet().tables
    assert table.week == (), "a week has no work of older days"
    assert [one["jobs"] for one in table.ever] == [2], "a counter goes on"


def test_the_week_goes_on_behind_a_change_of_columns(lake: Lakehouse, clock: Clock) -> None:
    """A table's days are kept by its id, and what its columns are called is no matter of theirs."""
    changes = ("RENAME COLUMN text TO body", "ADD COLUMN stars INT", "DROP COLUMN body", "RENAME COLUMN stars TO points")
    for turn, change in enumerate(changes):
        lake.table(NOTES).write([{"id": turn}], user="ann")
        lake.flush()
        _book(lake)
        clock.now += BOOK_EVERY
        lake.sql(f"ALTER TABLE {NOTES} {change}")
    (table,) = lake.fleet().tables
    found = _flushes(lake)
    assert (found["jobs"], found["done"], found["failed"]) == (len(changes), len(changes), 0)
    assert (table.name, table.look.scopes, table.look.broken_scopes, table.look.rows) == (NOTES, 1, 0, len(changes))
    assert [one["jobs"] for one in table.ever] == [len(changes)]


@pytest.mark.parametrize("bad", [b"{", b'{"day": "\xff"}'])
def test_a_day_that_is_garbled_hides_no_other(lake: Lakehouse, clock: Clock, bad: bytes) -> None:
    _flush(lake, "ann")
    _book(lake)
    (stored,) = lake.warehouse.state.list("fleet")
    lake.warehouse.state.put(stored.key, bad)
    fleet = lake.fleet()
    assert fleet.verdict == "1 scope: 1 kept note that cannot be read; all else well"
    assert (fleet.notes_unread, f"<code>{stored.key}</code>" in fleet_page(fleet)) == ((stored.key,), True)
    clock.now += BOOK_EVERY
    _book(lake)
    assert (_flushes(lake)["jobs"], lake.fleet().is_well) == (1, True)


def test_a_dropped_table_leaves_nothing(lake: Lakehouse) -> None:
    _flush(lake, "ann")
    _book(lake)
    keep_schedules(lake.warehouse.state, "dagster", [ScheduleStanding("flush_sensor", "sensor", "4 s", on=True)], START)
    lake.sql(f"DROP TABLE {NOTES}")
    assert [one.key for one in lake.warehouse.state.list("fleet")] == ["fleet/schedules/dagster"]
    found = lake.fleet()
    assert (found.tables, found.verdict, found.schedules_at) == ((), "0 scopes: all well", START)


@pytest.mark.slow
def test_no_user_is_kept_and_an_erasure_finds_one_that_is(lake: Lakehouse) -> None:
    _flush(lake, "ann-of-kept-figures", "bob")
    _book(lake)
    kept = [lake.warehouse.state.get(one.key) for one in lake.warehouse.state.list("fleet")]
    assert kept
    assert not any(b"ann-of" in data for data in kept)
    planted = f"fleet/{lake.table(NOTES).table.id}/2026-04-01"
    lake.warehouse.state.put(planted, b'{"day": "2026-04-01", "worst": {"of": "ann-of-kept-figures"}}')
    with pytest.raises(Conflict, match="kept figures of a table that name the user"):
        lake.erase("ann-of-kept-figures")
    lake.warehouse.state.delete([planted])
    lake.erase("ann-of-kept-figures")


def test_looking_writes_nothing(lake: Lakehouse, clock: Clock) -> None:
    _flush(lake, "ann", "bob")
    clock.now += timedelta(hours=1)
    root = Path(lake.warehouse.uri)
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    assert lake.fleet().total("files") == 2
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before


def test_a_storage_that_is_away_is_one_line_and_hides_no_other(lake: Lakehouse, tmp_path: Path) -> None:
    lake.create_storage("far", type="filesystem", base=str(tmp_path / "far"))
    lake.sql("CREATE USER TABLE chat.distant (id BIGINT PRIMARY KEY) WITH (STORAGE_ID = 'far')")
    lake.table("chat.distant").write([{"id": 1}], user="ann")
    _flush(lake, "ann", "bob")
    (tmp_path / "far").rename(tmp_path / "unmounted")
    found = lake.fleet()
    assert found.verdict == "3 scopes: 1 away; all else well"
    assert [(one.name, one.look.files) for one in found.tables] == [("chat.distant", 1), (NOTES, 2)]
    assert lake.book_fleet() == 2
