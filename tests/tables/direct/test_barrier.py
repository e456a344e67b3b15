"""Direct writes that went quiet: subscribers pass them soon, and a process that wakes up adds no row behind their backs."""

from __future__ import annotations

import threading

import pytest

from lakewarden import Lakehouse
from lakewarden.errors import Conflict
from lakewarden.log.table_log import TableLog
from lakewarden.tables.client import TableClient
from lakewarden.tables.direct import barrier
from lakewarden.tables.direct.barrier import alive, raise_barrier
from lakewarden.tables.direct.run import DirectRun
from tests.fixtures.clock import Clock
from tests.maintenance.steps import Died, dies, then
from tests.tables.direct.boards import ALL_EVENTS, EVENTS, appending, ids, rows

QUIET = 121
"""Seconds after which a write counts as dead."""
UNCOMMITTED = ("direct:written", "direct:drafted", "direct:committing", "before-link")


@pytest.fixture
def events(events: TableClient) -> TableClient:
    events.direct.append([rows({0: "first"})])
    return events


def stored(table: TableClient) -> list[int]:
    return sorted(int(str(id_)) for id_ in table.read().column("id").to_pylist())


def killed(lake: Lakehouse, events: TableClient, number: int = 1, step: str = "direct:committing") -> None:
    with pytest.raises(Died):
        DirectRun(lake.warehouse, events.table, appending(rows({number: "a"})), dies(step)).run()


def operations(events: TableClient) -> list[str]:
    return [entry.operation for entry in events.history()]


@pytest.mark.parametrize("step", UNCOMMITTED)
def test_the_next_append_lets_subscribers_pass_one_whose_process_died(
    lake: Lakehouse, events: TableClient, clock: Clock, step: str
) -> None:
    with lake.subscribe(ALL_EVENTS) as one:
        one.poll()
        killed(lake, events, step=step)
        events.direct.append([rows({2: "b"})])
        assert one.poll() == [], "the first may still be under way"
        clock.forward(QUIET)
        events.direct.append([rows({3: "c"})])
        assert ids(one.poll()) == [2, 3]
    assert operations(events).count("BARRIER") == 1
    assert stored(events) == [0, 2, 3]


def test_a_flush_does_so_where_no_other_write_comes(lake: Lakehouse, events: TableClient, clock: Clock) -> None:
    with lake.subscribe(ALL_EVENTS) as one:
        one.poll()
        killed(lake, events)
        events.direct.append([rows({2: "b"})])
        lake.flush()
        assert one.poll() == []
        clock.forward(QUIET)
        lake.flush()
        assert ids(one.poll()) == [2]
        lake.flush()
    assert operations(events)[:2] == ["BARRIER", "WRITE"], "one barrier, and no more"
    assert not [finding for finding in lake.check() if not finding.passed]


@pytest.mark.parametrize("step", UNCOMMITTED)
def test_an_append_that_wakes_up_behind_a_barrier_is_refused(
    lake: Lakehouse, events: TableClient, clock: Clock, step: str
) -> None:
    with lake.subscribe(ALL_EVENTS) as one:
        one.poll()
        heard: list[object] = []

        def sleeps() -> None:
            events.direct.append([rows({2: "b"})])
            clock.forward(QUIET)
            lake.flush()
            heard.extend(ids(one.poll()))

        with pytest.raises(Conflict, match="no sign of life"):
            DirectRun(lake.warehouse, events.table, appending(rows({1: "a"})), then(step, sleeps)).run()
        assert heard == [2]
        events.direct.append([rows({3: "c"})])
        assert ids(one.poll()) == [3]
    assert stored(events) == [0, 2, 3]
    assert not [finding.message for finding in lake.check() if "no commit names" in finding.message]


@pytest.mark.parametrize("step", UNCOMMITTED)
def test_a_commit_that_is_on_its_way_loses_against_the_barrier_alone(
    lake: Lakehouse, events: TableClient, clock: Clock, step: str
) -> None:
    with lake.subscribe(ALL_EVENTS) as one:
        one.poll()
        place = one.seq or 0

        def sleeps() -> None:
            clock.forward(QUIET)
            lake.flush()
            assert one.poll() == []
            assert (one.seq or 0) > place, "subscribers have passed it"

        with pytest.raises(Conflict, match="no sign of life"):
            DirectRun(lake.warehouse, events.table, appending(rows({1: "a"})), then(step, sleeps)).run()
    assert stored(events) == [0]
    assert operations(events)[0] == "BARRIER"


@pytest.mark.parametrize("step", ["direct:committed", "direct:synced", "direct:noted"])
def test_an_append_that_sleeps_behind_its_commit_is_heard_once(
    lake: Lakehouse, events: TableClient, clock: Clock, step: str
) -> None:
    with lake.subscribe(ALL_EVENTS) as one:
        one.poll()
        heard: list[object] = []

        def sleeps() -> None:
            clock.forward(QUIET)
            lake.flush()
            heard.extend(ids(one.poll()))

        DirectRun(lake.warehouse, events.table, appending(rows({1: "a"})), then(step, sleeps)).run()
        assert heard == [1]
        assert one.poll() == []
    assert stored(events) == [0, 1]


@pytest.mark.parametrize("step", ["barrier:noted", "barrier:committed"])
def test_subscribers_wait_for_a_barrier_whose_process_died_until_another_is_raised(
    lake: Lakehouse, events: TableClient, clock: Clock, step: str
) -> None:
    target, log = events.reader.target(None), lake.warehouse.log(events.table)
    with lake.subscribe(ALL_EVENTS) as one:
        one.poll()
        killed(lake, events)
        events.direct.append([rows({2: "b"})])
        clock.forward(QUIET)
        with pytest.raises(Died):
            raise_barrier(lake.warehouse, target, log, dies(step))
        lake.flush()
        assert one.poll() == [], "whoever raised it may have made no commit yet"
        clock.forward(QUIET)
        lake.flush()
        assert ids(one.poll()) == [2]


def test_writes_that_died_before_there_was_a_table_are_passed_once_there_is(lake: Lakehouse, clock: Clock) -> None:
    events = lake.table(EVENTS)
    with lake.subscribe(ALL_EVENTS) as one:
        killed(lake, events)
        clock.forward(QUIET)
        lake.flush()
        events.direct.append([rows({2: "b"})])
        clock.forward(QUIET)
        lake.flush()
        assert ids(one.poll()) == [2]


def test_a_write_says_that_it_lives_until_it_ends(
    lake: Lakehouse, events: TableClient, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(barrier, "RENEWED_SECONDS", 0.01)
    log, renewed = lake.warehouse.log(events.table), threading.Event()
    renew = type(log).renew_direct

    def renewing(log: TableLog, write_id: str) -> None:
        renew(log, write_id)
        renewed.set()

    monkeypatch.setattr(type(log), "renew_direct", renewing)
    log.open_direct("one")
    with alive(log, "one"):
        clock.forward(QUIET)
        renewed.clear()
        assert renewed.wait(60)
        renewed.clear()
        assert renewed.wait(60), "the first may have begun before the clock was set"
        assert not log.has_quiet(log.view())
    clock.forward(QUIET)
    assert log.has_quiet(log.view())
