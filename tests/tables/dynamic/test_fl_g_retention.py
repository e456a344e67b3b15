"""FL.G: what the log's retention removes, and what it never does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lakewarden import Lakehouse
from lakewarden.base.scope import TableName
from lakewarden.errors import InvalidArgument
from lakewarden.tables.changes.feed import ChangeFeed
from lakewarden.tables.changes.value import Start
from tests.fixtures.clock import Clock

_AGE = 7200
"""Seconds: twice the tables' retention."""


@pytest.fixture(scope="module")
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="module")
def timed(tmp_path_factory: pytest.TempPathFactory, clock: Clock) -> Iterator[Lakehouse]:
    place: Path = tmp_path_factory.mktemp("warehouse") / "w"
    with Lakehouse.open(str(place), clock=clock) as opened:
        opened.create_namespace("n")
        yield opened


def aged(lake: Lakehouse, clock: Clock, name: str) -> ChangeFeed:
    """A table with a row that was flushed long ago, one that was flushed now, and one that waits since long ago."""
    lake.sql(f"CREATE DYNAMIC TABLE n.{name} (id INT PRIMARY KEY, v INT) WITH ('log.retention' = '1 h')")
    table = lake.table(f"n.{name}")
    table.write([{"id": 1, "v": 1}])
    lake.flush(f"n.{name}")
    clock.forward(_AGE)
    table.write([{"id": 2, "v": 2}])
    lake.flush(f"n.{name}")
    return ChangeFeed(lake.warehouse, TableName("n", name))


def ids(lake: Lakehouse, name: str, after: int | None) -> list[int]:
    return sorted(row["id"] for row in lake.table(f"n.{name}").changes(after=after).rows.to_pylist())


def test_fl_075_changes_older_than_the_retention_go(timed: Lakehouse, clock: Clock) -> None:
    feed = aged(timed, clock, "g75")
    with pytest.raises(InvalidArgument, match="no longer kept"):
        feed.changes(-1)
    assert ids(timed, "g75", feed.start(Start.parse("timestamp:0"))) == [2]


def test_fl_058_full_has_all_rows_after_the_retention(timed: Lakehouse, clock: Clock) -> None:
    aged(timed, clock, "g58")
    assert ids(timed, "g58", None) == [1, 2]


def test_fl_076_their_rows_stay(timed: Lakehouse, clock: Clock) -> None:
    aged(timed, clock, "g76")
    assert timed.table("n.g76").read().num_rows == 2
    assert timed.table("n.g76").read(freshness="eventual").num_rows == 2


def test_fl_077_a_timestamp_before_what_is_kept_names_the_earliest(timed: Lakehouse, clock: Clock) -> None:
    feed = aged(timed, clock, "g77")
    with pytest.raises(InvalidArgument, match="start at timestamp:") as refused:
        feed.start(Start.parse("timestamp:1000"))
    earliest = next(word for word in refused.value.message.split() if word.startswith("timestamp:"))
    assert ids(timed, "g77", feed.start(Start.parse(earliest))) == [2]


def test_fl_078_no_maintenance_removes_rows(timed: Lakehouse, clock: Clock) -> None:
    aged(timed, clock, "g78")
    clock.forward(400 * 86_400)
    timed.compact("n.g78")
    timed.vacuum("n.g78", retain_hours=0, force=True, dry_run=False)
    assert timed.table("n.g78").read().num_rows == 2


def test_fl_080_what_was_not_flushed_never_goes(timed: Lakehouse, clock: Clock) -> None:
    feed = aged(timed, clock, "g80")
    upto = feed.end()
    timed.table("n.g80").write([{"id": 3, "v": 3}])
    clock.forward(10 * _AGE)
    timed.vacuum("n.g80", dry_run=False)
    assert ids(timed, "g80", upto) == [3]
    assert timed.table("n.g80").read().num_rows == 3
