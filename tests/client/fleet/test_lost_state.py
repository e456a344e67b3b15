"""What page, `status --all`, metrics and `check` say of a warehouse that lost objects of its state: the same as before where none
of them needs the object, or that something cannot be read; never "all well" of what was not seen, and never nothing at all."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lakewarden import Lakehouse
from lakewarden.catalog.state.fleet_days import ScheduleStanding, SurveySums, keep_schedules, keep_survey_sums
from lakewarden.cli.observe import warehouse_row
from lakewarden.client.fleet_metrics import metrics_text
from lakewarden.client.fleet_page import fleet_page
from lakewarden.errors import Corrupt
from tests.fixtures.lakes import NOTES, make_notes, notes

pytestmark = pytest.mark.disk

WELL = "7 scopes: all well"
NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


def _torn(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


DAMAGE: dict[str, Callable[[Path], object]] = {
    "gone": Path.unlink,
    "empty": lambda path: path.write_bytes(b""),
    "garbled": lambda path: path.write_bytes(b"\x00\xffgarbled"),
    "torn": _torn,
}

Breaks = Callable[[Iterable[str], str], Path]
"""A copy of the warehouse in which the objects of these patterns have this damage."""

_NEEDED = {
    "known/*/*": ("7 not looked at", "7 not looked at, 3 tables that cannot be read"),
    "scopes/*/*": ("2 tables that cannot be read", "2 tables that cannot be read"),
    "erasures/key": ("7 not looked at, 3 tables that cannot be read", "7 not looked at, 3 tables that cannot be read"),
    "log/*/cuts/*": ("3 tables that cannot be read", "3 tables that cannot be read"),
    "jobs/*/over": ("", "2 jobs that cannot be read"),
    "jobs/*/0*": ("", "1 job that cannot be read"),
    "fleet/[!s]*/*": ("", "3 kept notes that cannot be read"),
    "fleet/s*/*": ("", "2 kept notes that cannot be read"),
}
"""What the verdict says of objects that are gone, and of those that are damaged. Jobs and days that are gone have expired."""

_NOT_NEEDED = ("audit/*", "graves/*", "whole/*/*", "erasures/*.json", "erasures/over/*", "log/*/history/*", "active-jobs/*/*")


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("lost") / "warehouse"
    with Lakehouse.open(str(root), clock=lambda: NOW) as lake:
        table = make_notes(lake)
        lake.sql("CREATE USER TABLE chat.calm (id BIGINT PRIMARY KEY)")
        lake.sql("CREATE SHARED TABLE chat.one (id BIGINT PRIMARY KEY)")
        for user in ("ann", "bob", "cid", "dan"):
            table.write(notes({1: "a"}), user=user)
            lake.table("chat.calm").write([{"id": 1}], user=user)
        lake.table("chat.one").write([{"id": 1}])
        lake.flush()
        lake.erase("dan")
        lake.book_fleet()
        table.write(notes({2: "b"}), user="ann")
        lake.flush(NOTES)
        lake.enqueue("flush", NOTES)
        keep_schedules(lake.warehouse.state, "dagster", [ScheduleStanding("s", "sensor", "30 s", on=True)], NOW)
        keep_survey_sums(lake.warehouse.state, "somewhere", SurveySums("s3://there", 0))
        assert lake.fleet().verdict == WELL
    return root


@pytest.fixture
def broken(warehouse: Path, tmp_path: Path) -> Breaks:
    def make(objects: Iterable[str], damage: str) -> Path:
        copy = tmp_path / "warehouse"
        shutil.copytree(warehouse, copy)
        for pattern in objects:
            found = [path for path in (copy / "_lakewarden").glob(pattern) if path.is_file()]
            assert found, pattern
            for path in found:
                DAMAGE[damage](path)
        return copy

    return make


def _seen(warehouse: Path) -> dict[str, Any]:
    """What every door says, but for the warehouse's place."""
    with Lakehouse.open(str(warehouse), clock=lambda: NOW) as lake:
        fleet = lake.fleet()
        row = warehouse_row(fleet)
        assert row["verdict"] == fleet.verdict
        page = fleet_page(fleet)
        assert f"<title>{fleet.verdict} " in page
        assert ('<h1 class="ill">' in page) == (not fleet.is_well)
        metrics = metrics_text(fleet)
        for kind, count in fleet.unread.items():
            told = sum(one.health.status.error is not None for one in fleet.tables) if kind == "table" else None
            assert told == count if told is not None else f'lakewarden_unread{{kind="{kind}"}} {count}.0' in metrics
        assert metrics.count("lakewarden_unreadable{") == len(fleet.tables)
        assert (
            sum(line.endswith(" 1.0") for line in metrics.splitlines() if line.startswith("lakewarden_unreadable{"))
            == (fleet.unread["table"])
        )
        page = page.replace(str(warehouse), "")
        return {**row, "page": page, "warehouse": "", "findings": [one for one in lake.check() if not one.passed]}


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("objects", _NEEDED)
def test_what_a_figure_needs_and_cannot_be_read_is_told(broken: Breaks, objects: str, damage: str) -> None:
    said = _NEEDED[objects][damage != "gone"]
    found = _seen(broken([objects], damage))
    assert found["verdict"].partition(": ")[2].replace("1 broken, ", "") == (f"{said}; all else well" if said else "all well")
    if objects.startswith("fleet/s") and damage != "gone":
        assert "What is kept of schedules cannot be read." in found["page"]
    if objects.startswith(("scopes", "erasures/key", "log")) or (objects.startswith("known") and damage != "gone"):
        assert found["findings"], "a check says it, too, and goes on"


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGE)
def test_what_no_figure_needs_changes_none(warehouse: Path, broken: Breaks, damage: str) -> None:
    before, after = _seen(warehouse), _seen(broken(_NOT_NEEDED, damage))
    assert after | {"findings": []} == before
    assert after["findings"], "a part of the history is lost"


@pytest.mark.parametrize("objects", ["catalog/*", "warehouse.json"])
@pytest.mark.parametrize("damage", ["empty", "garbled", "torn"])
def test_a_warehouse_that_is_not_known_is_refused_by_name(broken: Breaks, objects: str, damage: str) -> None:
    with pytest.raises(Corrupt, match=r"_lakewarden/(catalog|warehouse)"):
        _seen(broken([objects], damage))


def test_a_look_makes_no_key_where_one_is_lost(broken: Breaks) -> None:
    copy = broken(["erasures/key"], "gone")
    _seen(copy)
    assert not (copy / "_lakewarden" / "erasures" / "key").exists()


def test_a_list_that_is_gone_comes_back(broken: Breaks) -> None:
    with Lakehouse.open(str(broken(["scopes/*/*"], "gone"))) as lake:
        assert "<code>lakewarden repair chat.notes --restored</code>" in fleet_page(lake.fleet())
        lake.repair(restored=True)
        assert lake.fleet().verdict == WELL
