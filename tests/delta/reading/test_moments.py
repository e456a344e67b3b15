"""A moment in a long log is found by a search, which gives the version that a look at all commits gives."""

from __future__ import annotations

import json
import random
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.base.clock import system_clock
from lakewarden.base.connection import Location
from lakewarden.delta.reading.past import SHORT, SKEW, timeline_about
from lakewarden.delta.replay.log_objects import LOG, commit_name
from lakewarden.delta.timeline import DatedLog, read_timeline
from lakewarden.storage.objects import ObjectStore
from lakewarden.storage.open import open_store

_COMMITS = SHORT * 2
_MINUTES = st.integers(-100, _COMMITS + 100)


def _begin() -> datetime:
    """So that the last commit is of now: the store's clock is right."""
    return system_clock() - timedelta(minutes=_COMMITS)


def _commit(place: Path, version: int, at: datetime) -> None:
    file = place / commit_name(version)
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps({"commitInfo": {"timestamp": int(at.timestamp() * 1000), "operation": "WRITE"}}))


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> tuple[ObjectStore, datetime]:
    """A commit a minute by clocks that are wrong by up to half of the skew."""
    place, begin, wrong = tmp_path_factory.mktemp("log"), _begin(), random.Random(16)
    for version in range(_COMMITS):
        off = timedelta(milliseconds=wrong.uniform(-SKEW / 2, SKEW / 2))
        _commit(place, version, begin + timedelta(minutes=version) + off)
    return open_store(Location(str(place))), begin


@pytest.mark.slow
@given(minutes=_MINUTES)
def test_the_search_and_the_whole_log_give_the_same_version(log: tuple[ObjectStore, datetime], minutes: int) -> None:
    store, begin = log
    moment, listing = begin + timedelta(minutes=minutes, seconds=30), DatedLog(store.list(LOG))
    searched = timeline_about(store, _COMMITS - 1, listing, moment)
    assert searched is not None
    assert searched.at(moment) == read_timeline(store, _COMMITS - 1, listing).at(moment)


def test_few_commits_are_read(log: tuple[ObjectStore, datetime], monkeypatch: pytest.MonkeyPatch) -> None:
    store, begin = log
    read: list[str] = []
    get = store.get

    def counted(key: str) -> bytes:
        read.append(key)
        return get(key)

    monkeypatch.setattr(store, "get", counted)
    moment = begin + timedelta(minutes=_COMMITS / 3)
    found = timeline_about(store, _COMMITS - 1, DatedLog(store.list(LOG)), moment)
    assert found is not None
    assert found.at(moment) is not None
    near = 4 * SKEW // 60_000
    assert len(read) <= 2 * _COMMITS.bit_length() + near, "the search, and the commits about the moment"


@pytest.mark.parametrize("years", [-9, 9])
def test_a_clock_that_is_far_off_is_seen_and_the_whole_log_decides(years: int, tmp_path: Path) -> None:
    begin = _begin()
    for version in range(_COMMITS):
        off = timedelta(days=365 * years if version == _COMMITS // 2 else 0)  # where the search looks first
        _commit(tmp_path, version, begin + timedelta(minutes=version) + off)
    store = open_store(Location(str(tmp_path)))
    assert timeline_about(store, _COMMITS - 1, DatedLog(store.list(LOG)), begin + timedelta(hours=1)) is None


def test_a_short_log_is_read_as_a_whole(tmp_path: Path) -> None:
    _commit(tmp_path, 0, _begin())
    store = open_store(Location(str(tmp_path)))
    assert timeline_about(store, 0, DatedLog(store.list(LOG)), system_clock()) is None
