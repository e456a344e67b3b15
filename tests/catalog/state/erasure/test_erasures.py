"""Erasures under way, and the keyed hashes that stand for ids."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from lakewarden.catalog.state.erasures import Counts, ErasedTable, Erasure, Erasures
from lakewarden.errors import Conflict, Corrupt
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


def test_hashes_of_many_are_those_of_each(store: LocalObjects) -> None:
    erasures, users = Erasures(store), ["ann", "", "é/\0", "x" * 300]
    assert erasures.marks(users).hex() == "".join(map(erasures.mark, users))


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


def test_what_two_attempts_at_once_found_is_put_together(store: LocalObjects) -> None:
    erasures = Erasures(store)
    first = erasures.begin(_wanted("UC-1", "a"), _LIVE)
    second = erasures.begin(_wanted("UC-2", "a"), _LIVE)
    first = erasures.note(first, "UC-1", Counts(uploads=2, audit=3))
    second = erasures.note(second, "UC-2", Counts(uploads=1, jobs=4).with_table("notes", files=1))
    both = Counts(uploads=3, audit=3, jobs=4).with_table("notes", files=1)
    third = erasures.begin(_wanted("UC-3", "a"), _LIVE)
    assert third.counts == both
    erasures.note(third, "UC-3", Counts(uploads=4, audit=3, jobs=4))
    found = erasures.under_way("mark")
    assert found is not None
    assert found.counts.uploads == 4
    erasures.end(third)
    erasures.note(first, "UC-1", Counts(uploads=9))  # it slept
    assert erasures.under_way("mark") is None
    assert erasures.begin(_wanted("UC-4", "a"), _LIVE).counts == Counts()
