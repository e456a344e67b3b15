"""The tick without Dagster: what is due, once; by the times of Dagster's schedules."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakewarden import Lakehouse
from lakewarden.base.setting_sections import CompactionSettings, MaintenanceSettings
from lakewarden.base.settings import Settings
from lakewarden.client.maintain_once import CADENCES, Cadence, DueAction, MaintainOnce
from lakewarden.errors import StorageUnavailable
from tests.fixtures.clock import Clock
from tests.fixtures.lakes import NOTES, make_notes, notes

pytestmark = pytest.mark.disk

START = datetime(2026, 5, 1, 12, 20, tzinfo=UTC)  # a Friday
SETTINGS = Settings(
    compaction=CompactionSettings(min_eligible_segments=2, ratio=0), maintenance=MaintenanceSettings(min_gain=0.1)
)


@pytest.fixture
def clock() -> Clock:
    return Clock(START)


@pytest.fixture
def lake(tmp_path: Path, clock: Clock) -> Iterator[Lakehouse]:
    with Lakehouse.open(str(tmp_path / "warehouse"), clock=clock, settings=SETTINGS) as lake:
        make_notes(lake, options={"FLUSH_POLICY": "interval:60"})
        yield lake


def tick(lake: Lakehouse, *, dry_run: bool = False) -> dict[str, DueAction]:
    return {one.action: one for one in MaintainOnce(lake, dry_run).run()}


def came(found: dict[str, DueAction]) -> dict[str, tuple[str, int]]:
    return {name: (one.outcome, one.scopes) for name, one in found.items() if one.outcome != "nothing"}


@pytest.mark.parametrize(
    ("cadence", "cron", "last"),
    [
        (Cadence(), "* * * * *", datetime(2026, 5, 1, 12, 20, tzinfo=UTC)),
        (Cadence(17), "17 * * * *", datetime(2026, 5, 1, 12, 17, tzinfo=UTC)),
        (Cadence(21), "21 * * * *", datetime(2026, 5, 1, 11, 21, tzinfo=UTC)),
        (Cadence(30, 2), "30 2 * * *", datetime(2026, 5, 1, 2, 30, tzinfo=UTC)),
        (Cadence(30, 22), "30 22 * * *", datetime(2026, 4, 30, 22, 30, tzinfo=UTC)),
        (Cadence(0, 4, 0), "0 4 * * 0", datetime(2026, 4, 26, 4, 0, tzinfo=UTC)),
        (Cadence(0, 4, 5), "0 4 * * 5", datetime(2026, 5, 1, 4, 0, tzinfo=UTC)),
        (Cadence(20, 12, 5), "20 12 * * 5", START),
    ],
)
def test_a_cadence_knows_its_last_time_and_its_cron(cadence: Cadence, cron: str, last: datetime) -> None:
    assert (cadence.cron, cadence.last(START + timedelta(seconds=29))) == (cron, last)


def test_what_is_due_is_done_once(lake: Lakehouse, clock: Clock) -> None:
    table = lake.table(NOTES)
    table.write(notes({1: "a"}), user="ann")
    assert "flush" not in came(tick(lake)), "it is not due yet"
    clock.now += timedelta(seconds=61)
    planned = tick(lake, dry_run=True)
    assert came(planned)["flush"] == ("due", 1)
    assert "interval:60" in planned["flush"].reason
    assert lake.pending(), "a dry run does nothing"
    assert came(tick(lake))["flush"] == ("done", 1)
    assert not lake.pending()
    assert came(tick(lake)) == {}
    assert table.history(user="ann")[0].version == 0


def test_maintenance_comes_once_for_each_of_its_times(lake: Lakehouse, clock: Clock) -> None:
    table = lake.table(NOTES)
    for turn in range(3):
        table.write(notes({turn: "a"}), user="ann")
        lake.flush()
    assert came(tick(lake, dry_run=True))["compact_hourly"] == ("due", 1)
    first = came(tick(lake))
    assert first["compact_hourly"] == ("done", 1)
    assert "compact_hourly" not in came(tick(lake))
    clock.now = clock.now.replace(hour=13, minute=16)
    assert "compact_hourly" not in came(tick(lake, dry_run=True))
    clock.now = clock.now.replace(minute=17)
    assert came(tick(lake, dry_run=True))["compact_hourly"] == ("due", 1)
    standings = {one.name: one for one in lake.fleet().schedules}
    assert (standings["compact_hourly"].kind, standings["compact_hourly"].last) == ("maintain", "done")
    assert standings.keys() == CADENCES.keys() - {"evict_minutely"}


def test_a_vacuum_deletes_only_where_the_owner_said_so(lake: Lakehouse, clock: Clock) -> None:
    table = lake.table(NOTES)
    for text in ("a", "b"):
        table.write(notes({1: text}), user="ann")
        lake.flush()
    clock.now += timedelta(days=9)
    found = tick(lake)["vacuum_weekly"]
    assert "scheduled_deletes is not set" in found.reason
    assert lake.fleet().debt.bytes > 0


def test_queued_jobs_run(lake: Lakehouse) -> None:
    lake.table(NOTES).write(notes({1: "a"}), user="ann")
    lake.enqueue("flush", NOTES)
    assert came(tick(lake))["jobs"] == ("done", 1)
    assert not lake.pending()


def test_one_rule_that_fails_does_not_stop_the_others(lake: Lakehouse, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.table(NOTES).write(notes({1: "a"}), user="ann")
    clock.now += timedelta(seconds=61)

    def away(*_: object, **__: object) -> None:
        raise StorageUnavailable("the store is away")

    monkeypatch.setattr(lake, "waiting_jobs", away)
    found = tick(lake)
    assert (found["jobs"].outcome, found["jobs"].code, found["flush"].outcome) == ("failed", "STORAGE_UNAVAILABLE", "done")
    assert found["health"].outcome == "done"


def test_a_disabled_engine_is_left_alone(lake: Lakehouse, clock: Clock) -> None:
    lake.table(NOTES).write(notes({1: "a"}), user="ann")
    lake.sql("DISABLE ENGINE chat")
    clock.now += timedelta(seconds=61)
    found = tick(lake)
    assert (found["flush"].outcome, found["compact_hourly"].outcome) == ("nothing", "nothing")
    assert "disabled" in found["compact_hourly"].reason
