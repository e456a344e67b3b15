"""Which table is late and which scopes are worst, and why."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakewarden import Lakehouse, Settings
from lakewarden.base.setting_sections import FlushSettings
from lakewarden.catalog.state.failed_checks import CheckResult
from lakewarden.maintenance.planning.health import TableHealth, health, health_of
from lakewarden.maintenance.planning.overview import overview
from tests.fixtures.clock import Clock
from tests.fixtures.lakes import NOTES, make_notes, notes

pytestmark = pytest.mark.disk

START = datetime(2026, 5, 1, 12, tzinfo=UTC)


def looked(lake: Lakehouse) -> TableHealth:
    (found,) = health(lake.warehouse)
    return found


def test_a_line_a_reason_the_most_severe_first(tmp_path: Path) -> None:
    clock = Clock(START)
    with Lakehouse.open(str(tmp_path / "warehouse"), clock=clock) as lake:
        table = make_notes(lake, options={"FLUSH_POLICY": "interval:60"})
        for user in ("ann", "bob", "cid", "dan", "eve"):
            table.write(notes({1: "a"}), user=user)
        lake.flush()
        table.write(notes({2: "b"}), user="bob")
        clock.now += timedelta(minutes=5)
        assert (looked(lake).is_late, looked(lake).status.scopes) == (False, 5)
        clock.now += timedelta(minutes=2)
        table.write(notes({2: "b", 3: "c"}), user="cid")
        for broken in ("dan", "eve"):  # a flush of these fails again, so none is offered
            table.write(notes({2: "b"}), user=broken)
        failures = [CheckResult("ann", "one_row_per_key", 1, False), CheckResult("dan", "readable", 1, False, reason="torn")]
        lake.warehouse.failed_checks.record(table.table.id, [*failures, CheckResult("eve", "readable", 1, False, reason="torn")])
        found = looked(lake)
    counts = (found.broken_scopes, found.failed_scopes, found.late_scopes, found.status.pending_rows)
    assert counts == (2, 1, 1, 5)
    assert [(one.severity, one.count, [scope.user for scope in one.examples], one.reason) for one in found.worst] == [
        ("broken", 2, ["dan", "eve"], "failed check readable: torn"),
        ("failed check", 1, ["ann"], "failed check one_row_per_key: it is CORRUPT"),
        ("late", 1, ["bob"], "late: rows wait for up to 7 min of interval:60"),
        ("waiting", 1, ["cid"], "up to 2 rows in the log"),
    ]
    assert (found.worst[0].code, found.worst[0].command) == ("CORRUPT", f"lakewarden repair {NOTES} --user dan")


@pytest.mark.slow
def test_a_check_has_a_line_for_each_reason_and_each_scope_counts_once(tmp_path: Path) -> None:
    """Reasons that differ in names, ids of files and numbers alone are one; what is not read stands with the rarest."""
    reasons = [(60, "{place}/batch-%08x.parquet is missing"), (30, "version %d is torn")]
    reasons += [(2, f"{word} is garbled ") for word in ("head", "tail", "stats", "schema", "name")]
    texts = [reason % number if "%" in reason else reason for count, reason in reasons for number in range(count)]
    with Lakehouse.open(str(tmp_path / "warehouse"), settings=Settings(flush=FlushSettings(in_process_below=200))) as lake:
        table = make_notes(lake)
        users = [f"u{number:03}" for number in range(103)]
        table.write([{"user": user, "id": 1, "text": "a"} for user in users], user_column="user")
        lake.flush()
        failures = [CheckResult(user, "readable", 1, False, reason=texts[at % 100]) for at, user in enumerate(users)]
        lake.warehouse.failed_checks.record(table.table.id, failures)
        found = looked(lake)
    lines = [(one.count, one.reason.rpartition("/")[2].removeprefix("failed check "), len(one.examples)) for one in found.worst]
    assert lines == [
        (60, "batch-00000000.parquet is missing", 3),
        (30, "readable: version 0 is torn", 3),
        (2, "readable: head is garbled ", 2),
        (2, "readable: tail is garbled ", 2),
        (2, "readable: stats is garbled ", 2),
        (7, "readable: for other reasons, which `lakewarden status` lists", 3),
    ]
    assert found.broken_scopes == 103


def test_rows_of_a_table_without_an_interval_are_never_late(tmp_path: Path) -> None:
    clock = Clock(START)
    with Lakehouse.open(str(tmp_path / "warehouse"), clock=clock) as lake:
        make_notes(lake, options={"FLUSH_POLICY": "rows:9"}).write(notes({1: "a"}), user="ann")
        clock.now += timedelta(days=3)
        found = looked(lake)
    assert (found.is_late, found.worst[0].reason, found.status.oldest_pending_age) == (False, "up to 1 row in the log", 259_200)


def test_a_storage_that_is_away_comes_first_and_has_its_name(tmp_path: Path) -> None:
    with Lakehouse.open(str(tmp_path / "warehouse")) as lake:
        lake.create_storage("far", type="filesystem", base=str(tmp_path / "far"))
        table = make_notes(lake, options={"STORAGE_ID": "far", "FLUSH_POLICY": "rows:1"})
        for user in ("ann", "bob"):
            table.write(notes({1: "a"}), user=user)
        lake.flush()
        table.write(notes({2: "b"}), user="bob")
        assert looked(lake).away_scopes == 0
        (tmp_path / "far").rename(tmp_path / "unmounted")
        found = looked(lake)
        assert (found.away_scopes, found.broken_scopes) == (2, 0)
        assert [one.severity for one in found.worst] == ["away", "waiting"]
        assert (found.worst[0].code, found.worst[0].command) == ("STORAGE_UNAVAILABLE", "lakewarden check far")
        assert "storage 'far'" in found.worst[0].reason
        (tmp_path / "unmounted").rename(tmp_path / "far")
        assert looked(lake).away_scopes == 0


def test_reasons_that_a_look_finds_are_alike_where_names_ids_and_numbers_differ(tmp_path: Path) -> None:
    with Lakehouse.open(str(tmp_path / "warehouse")) as lake:
        table = make_notes(lake)
        users = ("ann", "bob", "cid")
        for user in users:
            table.write(notes({1: "a"}), user=user)
        seen = overview(lake.warehouse)
        said = {"ann": "commit 17 is cut off", "bob": "commit 4 is cut off", "cid": f"{NOTES}[cid] is gone"}
        torn = tuple(replace(one, code="CORRUPT", reason=said[one.user or ""]) for one in seen.scopes)
        (found,) = health_of(lake.warehouse, replace(seen, scopes=torn))
    assert sorted((one.count, one.reason.split()[-1]) for one in found.worst) == [(1, "gone"), (2, "off")]


@pytest.mark.parametrize("of_table", [None, "torn"])
def test_scopes_that_are_found_broken_for_one_reason_share_a_line(tmp_path: Path, of_table: str | None) -> None:
    with Lakehouse.open(str(tmp_path / "warehouse")) as lake:
        table = make_notes(lake)
        users = ("ann", "bob", "cid", "dan")
        for user in users:
            table.write(notes({1: "a"}), user=user)
        lake.flush()
        for user in users:
            table.write(notes({2: "b"}), user=user)
        seen = overview(lake.warehouse)
        torn = tuple(replace(one, code="CORRUPT", reason="torn", command=f"mend {one.user}") for one in seen.scopes)
        tables = (replace(seen.tables[0], error=of_table),)
        (found,) = health_of(lake.warehouse, replace(seen, tables=tables, scopes=torn))
    scopes, examples, command = (4, 3, f"mend {torn[0].user}") if of_table is None else (0, 1, f"lakewarden repair {NOTES}")
    assert found.broken_scopes == scopes, "no scope is broken by itself where the table is"
    assert [(one.reason, one.count, len(one.examples), one.command) for one in found.worst] == [("torn", 4, examples, command)]


def test_a_list_of_users_that_cannot_be_read_hides_no_other_table(tmp_path: Path) -> None:
    uri = str(tmp_path / "warehouse")
    with Lakehouse.open(uri) as lake:
        table = make_notes(lake)
        table.write(notes({1: "a"}), user="ann")
        lake.flush()
        failure = CheckResult("ann", "readable", 1, False, reason="torn")
        lake.warehouse.failed_checks.record(table.table.id, [failure])
        lake.sql("CREATE USER TABLE chat.more (id BIGINT PRIMARY KEY); INSERT INTO chat.more VALUES (1)")
        for key in lake.warehouse.state.keys(f"scopes/{table.table.id}"):
            lake.warehouse.state.put(key, b"garbled")
    with Lakehouse.open(uri) as lake:
        assert lake.fleet().verdict == "0 scopes: 1 table that cannot be read; all else well"
        assert [(one.table, one.code) for one in lake.status()] == [(NOTES, "CORRUPT"), ("chat.more", None)]
