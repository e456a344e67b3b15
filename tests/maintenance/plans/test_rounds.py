"""A vacuum comes to quiet scopes in turns: what a writer left that died is in no note of theirs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from lakewarden import Lakehouse
from lakewarden.base.clock import system_clock
from lakewarden.base.setting_sections import MaintenanceSettings
from lakewarden.base.settings import Settings
from lakewarden.catalog.report import ScopeReport
from lakewarden.maintenance.plans.select import QUIET
from tests.fixtures.lakes import NOTES, make_notes, notes, scope_path

pytestmark = pytest.mark.disk  # leftovers are made by hand, in directories

USERS = ("ann", "bob", "cyd", "dan", "eve")
SETTINGS = Settings(maintenance=MaintenanceSettings(looks_per_run=2, look_hours=2))


@pytest.fixture
def hours() -> list[float]:
    """How many hours it is later, in the one element."""
    return [0.0]


@pytest.fixture
def lake(tmp_path: Path, hours: list[float]) -> Iterator[Lakehouse]:
    def later() -> datetime:
        return system_clock() + timedelta(hours=hours[0])

    with Lakehouse.open(str(tmp_path), settings=SETTINGS, clock=later) as lake:
        make_notes(lake)
        lake.table(NOTES).write(notes_of(*USERS), user_column="user")
        lake.flush()
        yield lake


def notes_of(*users: str) -> list[dict[str, object]]:
    return [{**row, "user": user} for user in users for row in notes({1: "text"})]


def opened(reports: list[ScopeReport]) -> set[str | None]:
    return {report.scope.user for report in reports if QUIET not in report.metrics}


def vacuumed(lake: Lakehouse) -> set[str | None]:
    return opened(lake.vacuum(dry_run=False))


def leave_behind(lake: Lakehouse, user: str) -> Path:
    """A file that no commit names, which is old enough to be of a dead writer."""
    left = Path(str(scope_path(lake, user))) / "part-00000-of-a-dead-writer.parquet"
    left.write_bytes(b"half a file")
    os.utime(left, (0, 0))
    return left


def test_every_scope_has_its_turn_and_none_more_often(lake: Lakehouse, hours: list[float]) -> None:
    left = [leave_behind(lake, user) for user in USERS]
    assert vacuumed(lake) == set(), "the round starts"
    turns = []
    for _ in range(3):
        hours[0] += 1
        lake.compact(look=True)  # looks of others do not count
        turns.append(vacuumed(lake))
        assert vacuumed(lake) == set(), "once in an hour"
    assert [len(turn) for turn in turns] == [2, 2, 2]
    assert turns[0] | turns[1] | turns[2] == set(USERS)
    assert not any(path.exists() for path in left)


def test_a_turn_is_of_a_bounded_size_and_a_dry_run_does_not_take_it(lake: Lakehouse, hours: list[float]) -> None:
    vacuumed(lake)
    hours[0] += 100
    lake.compact(look=True)
    shown = opened(lake.vacuum(dry_run=True))
    assert len(shown) == 4, "of two hours, the most that settings allow"
    assert vacuumed(lake) == shown


def test_a_lost_note_starts_the_round_again(lake: Lakehouse, hours: list[float]) -> None:
    vacuumed(lake)
    for note in (Path(lake.warehouse.state.uri) / "vacuum-rounds").iterdir():
        note.write_bytes(b"")
    hours[0] += 1
    assert vacuumed(lake) == set()
    hours[0] += 1
    lake.compact(look=True)
    assert len(vacuumed(lake)) == 2
