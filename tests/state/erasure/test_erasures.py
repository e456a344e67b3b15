"""Erasures under way, and the keyed hashes that stand for ids."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from lakewarden.errors import Conflict, Corrupt
from lakewarden.state.erasure.erasures import Counts, ErasedTable, Erasure, Erasures
from lakewarden.storage.local import LocalObjects

_NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
_LIVE = frozenset("abc")


@pytest.fixture
def store(tmp_path: Path) -> LocalObjects:
    return LocalObjects(str(tmp_path / "state"))


def _wanted(job_id: str, *tables: str) -> Erasure:
    return Erasure(job_id, "mark", tables, "a test", _NOON)


def test_the_hash_is_the_warehouses_own(store: LocalObjects, tmp_path: Path) -> None:
    mark = Erasures(store).mark("ann")
    assert mark == Erasures(store).mark("ann") != Erasures(store).mark("bob")
    assert mark != Erasures(LocalObjects(str(tmp_path / "other"))).mark("ann")
    assert len(mark) == 32


def test_one_that_was_interrupted_goes_on_and_may_grow(store: LocalObjects) -> None:
    erasures = Erasures(store)
    assert erasures.begin(_wanted("UC-1", "a"), _LIVE).job_id == "UC-1"
    grown = erasures.begin(_wanted("UC-2", "a", "b"), _LIVE)
    assert (grown.job_id, grown.tables) == ("UC-1", ("a", "b"))
    with pytest.raises(Conflict, match="UC-1"):
        erasures.begin(_wanted("UC-3", "a"), _LIVE)
    assert erasures.begin(_wanted("UC-3", "a"), _LIVE - {"b"}).tables == ("a",), "a table that was dropped is no reason"
    erasures.end(grown)
    assert erasures.under_way("mark") is None
    assert erasures.begin(_wanted("UC-4", "c"), _LIVE).job_id == "UC-4"


def test_what_an_earlier_attempt_found_counts() -> None:
    counts = Counts().with_table("notes", hot_rows=2, files=3, bytes=40, tags=1).with_table("rooms", files=1)
    again = counts.with_table("notes", hot_rows=1, files=1, bytes=50)
    assert (again.of("notes"), again.of("rooms").files) == (ErasedTable("notes", 2, 3, 50, 1), 1)


def test_what_is_no_erasure_is_corrupt(store: LocalObjects) -> None:
    store.create("erasures/open/mark", b"{}")
    with pytest.raises(Corrupt):
        Erasures(store).under_way("mark")
