"""A quick check opens what failed before and what the state does not know, and says what it did not open."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake

from lakewarden import Lakehouse
from lakewarden.catalog.state.floor import floor_at
from tests.fixtures.lakes import NOTES, make_notes, notes, scope_path

pytestmark = pytest.mark.disk
USERS = ("ann", "bob", "cyd")


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lakehouse]:
    with Lakehouse.open(str(tmp_path)) as lake:
        for user in USERS:
            make_notes(lake).write(notes({1: "a"}), user=user)
        lake.flush()
        yield lake


def _opened(lake: Lakehouse) -> set[str]:
    return {one.subject for one in lake.check(quick=True) if one.check == "readable"}


def test_scopes_that_the_state_knows_are_not_opened_and_counted(lake: Lakehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakewarden.maintenance.check.scope.open_place", None)
    found = lake.check(quick=True)
    assert all(one.passed for one in found)
    assert {(one.subject, one.check) for one in found} == {
        ("storage local", "identity"),
        ("storage local", "reachable"),
        (NOTES, "log"),
        (NOTES, "floor"),
        (NOTES, "state"),
    }
    (state,) = (one for one in found if one.check == "state")
    assert state.message.startswith("3 scopes were not opened")


def test_what_failed_before_is_opened_until_it_passes(lake: Lakehouse) -> None:
    path = str(scope_path(lake, "bob"))
    write_deltalake(path, DeltaTable(path).to_pyarrow_table(), mode="append")
    assert all(one.passed for one in lake.check(quick=True)), "no program of ours made this commit"
    assert not all(one.passed for one in lake.check())
    assert [(one.subject, one.check) for one in lake.check(quick=True) if not one.passed] == [
        (f"{NOTES}[bob]", "one_row_per_key")
    ]
    make_notes(lake).write(notes({1: "b"}), user="bob")
    lake.flush()
    assert _opened(lake) == {f"{NOTES}[bob]"}
    assert _opened(lake) == set()


@pytest.mark.parametrize("lost", ["half", "whole"])
def test_what_the_state_lost_is_opened(lake: Lakehouse, lost: str) -> None:
    known = Path(lake.warehouse.state.uri) / "known"
    make_notes(lake).write(notes({1: "a"}), user="dee")
    lake.flush()
    newest = max(known.glob("*/*"))
    newest.unlink() if lost == "half" else shutil.rmtree(known)
    floor_at.cache_clear()
    expected = {"dee"} if lost == "half" else {*USERS, "dee"}
    assert _opened(lake) == {f"{NOTES}[{user}]" for user in expected}


def test_a_log_older_than_its_storage_fails_without_opening_a_scope(lake: Lakehouse) -> None:
    state = Path(lake.warehouse.state.uri)
    for path in state.glob("log/*/*/*"):
        path.unlink()
    with Lakehouse.open(lake.warehouse.uri) as other:
        assert any(not one.passed and one.check in ("floor", "log") for one in other.check(quick=True))
