"""Direct writes of processes whose clocks differ: the store's time says how old a note is, and no clock decides what is read."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from lakewarden import Lakehouse
from lakewarden.base.clock import random_id
from lakewarden.base.setting_sections import LogSettings
from lakewarden.log.objects.cut import newest_cut
from lakewarden.log.objects.pack import INDEXED
from lakewarden.log.table_log import LogTerms, TableLog
from lakewarden.tables.client import TableClient
from tests.log.build import LOG, Store

OFF = [timedelta(minutes=-3), timedelta(minutes=3), timedelta(days=-3), timedelta(days=3)]


class Off:
    """The clock of a machine that differs from the store's."""

    def __init__(self, by: timedelta = timedelta()) -> None:
        self.by = by

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.by


def log_of(store: Store, clock: Off) -> TableLog:
    """A process of its own."""
    return TableLog(store, LOG, LogTerms(LogSettings(), clock, random_id, str.upper, INDEXED))


@pytest.mark.parametrize("by", OFF)
def test_a_write_that_lives_is_quiet_for_nobody_whose_clock_differs(store: Store, by: timedelta) -> None:
    right, wrong = log_of(store, Off()), log_of(store, Off(by))
    assert not right.open_direct("right")
    assert not wrong.open_direct("wrong"), "nor is another's for it"
    wrong.renew_direct("wrong")
    for each in (right, wrong, log_of(store, Off()), log_of(store, Off(by)), log_of(store, Off(-by))):
        assert not each.replace_quiet("barrier")
    assert right.is_noted("wrong")
    assert wrong.is_noted("right")


@pytest.mark.parametrize("by", OFF)
@pytest.mark.parametrize("flushed", [False, True])
def test_no_note_counts_as_quiet_before_its_writers_clock_was_compared(store: Store, by: timedelta, flushed: bool) -> None:
    """Another process looks right behind the note, in a log where others write."""
    right, wrong, looked = log_of(store, Off()), log_of(store, Off(by)), list[bool]()
    right.open_direct("right")
    right.take_position()
    right.close_direct("right")
    if flushed:
        right.settle(right.view(), {})

    def look(call: str, key: str) -> None:
        if call == "create" and "/cuts/" in key:
            store.after = lambda call, key: None
            looked.append(right.replace_quiet("barrier"))

    store.after = look
    assert not wrong.open_direct("wrong")
    assert (looked, wrong.is_noted("wrong")) == ([False], True)


@pytest.mark.parametrize("by", OFF)
def test_a_note_has_the_stores_time_whatever_its_writers_clock_says(store: Store, by: timedelta) -> None:
    log_of(store, Off(by)).open_direct("wrong")
    noted = datetime.fromtimestamp(newest_cut(store, LOG).direct["wrong"][1] / 1000, UTC)
    assert abs(noted - datetime.now(UTC)) < timedelta(seconds=60)


@pytest.mark.parametrize("by", OFF)
def test_a_write_that_died_is_quiet_two_minutes_later_for_everyone(store: Store, by: timedelta) -> None:
    clock = Off(by)
    log_of(store, clock).open_direct("dead")
    watcher = log_of(store, clock)
    assert watcher.has_quiet(watcher.view()), "to be looked at: its time is not known yet"
    assert not watcher.replace_quiet("early")
    assert not watcher.has_quiet(watcher.view())
    clock.by += timedelta(seconds=121)
    assert watcher.has_quiet(watcher.view())
    assert watcher.replace_quiet("barrier")


@pytest.mark.parametrize("by", OFF)
def test_no_readers_clock_passes_a_write_that_is_under_way(store: Store, by: timedelta) -> None:
    log_of(store, Off()).open_direct("alive")
    assert log_of(store, Off(by)).direct_upto() is not None


def test_the_store_is_asked_for_its_time_once(store: Store) -> None:
    log_of(store, Off()).open_direct("before")
    log, costs = log_of(store, Off()), []
    for number in range(3):
        before = store.calls.total()
        log.open_direct(f"write {number}")
        costs.append(store.calls.total() - before)
    assert costs[0] == costs[1] + 1
    assert costs[1] == costs[2]


@pytest.mark.disk
@pytest.mark.parametrize("by", OFF)
def test_a_writer_with_another_clock_appends_while_others_do(tmp_path: Path, by: timedelta) -> None:
    uri = str(tmp_path / "w")
    with Lakehouse.open(uri) as right, Lakehouse.open(uri, clock=Off(by)) as wrong:
        right.sql("CREATE NAMESPACE n; CREATE SHARED TABLE n.t (id BIGINT)")
        first, second = right.table("n.t"), wrong.table("n.t")
        for number, (one, other) in enumerate(((first, second), (second, first))):

            def given(one: TableClient = one, other: TableClient = other, number: int = number) -> Iterator[pa.Table]:
                yield one.completed([{"id": 10 * number}], user=None)
                other.write([{"id": 10 * number + 1}])
                right.flush("n.t")

            one.direct.append(given())
        assert sorted(row["id"] for row in first.read().to_pylist()) == [0, 1, 10, 11]
        assert first.log.direct_upto() is None
