"""Processs are started when they are needed, lent to one at a time, kept while they are usable, and replaced when not."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from typing import cast

import pytest

from lakewarden.base.cancellation import Cancellation
from lakewarden.base.workers import Pool, Process
from lakewarden.errors import Canceled, Internal, Unsupported
from tests.fixtures.patience import PATIENCE


class _Fake:
    def __init__(self) -> None:
        self.usable = True
        self.alive = True
        self.ended = 0

    def kill(self) -> None:
        self.alive = False

    def end(self) -> int:
        self.alive = False
        self.ended += 1
        return 0


class _Starting:
    def __init__(self, failures: int = 0) -> None:
        self.started: list[_Fake] = []
        self.failures = failures

    def __call__(self) -> Process:
        if self.failures:
            self.failures -= 1
            raise Internal("a worker process cannot be started")
        self.started.append(_Fake())
        return self.workers[-1]

    @property
    def workers(self) -> list[Process]:
        return cast("list[Process]", self.started)


def _held(starting: _Starting, most: int) -> Pool[Process]:
    pool = Pool(starting, most, "processes for it")
    pool.hold()
    return pool


def test_nothing_is_started_before_a_query_and_one_serves_all_that_come_in_turn() -> None:
    starting = _Starting()
    pool = _held(starting, 3)
    assert not starting.started
    for _ in range(5):
        with pool.worker(1.0) as worker:
            assert worker.usable
    assert len(starting.started) == 1


def test_no_more_are_started_than_there_may_be_and_who_waits_too_long_is_refused() -> None:
    starting = _Starting()
    pool = _held(starting, 2)
    with ExitStack() as stack:
        lent = [stack.enter_context(pool.worker(1.0)) for _ in range(2)]
        assert lent[0] is not lent[1]
        with pytest.raises(Unsupported, match="all 2 processes for it were busy for 0 seconds"):
            stack.enter_context(pool.worker(0.0))
    with pool.worker(0.0) as again:
        assert again in lent


def test_who_waits_is_given_what_others_give_back() -> None:
    starting = _Starting()
    pool = _held(starting, 2)

    def use(_: int) -> Process:
        with pool.worker(3600.0) as worker:
            return worker

    with ThreadPoolExecutor(16) as threads:
        used = list(threads.map(use, range(200)))
    assert len(starting.started) <= 2
    assert set(used) == set(starting.workers)


def test_one_that_is_not_usable_is_ended_and_replaced() -> None:
    starting = _Starting()
    pool = _held(starting, 1)
    with pool.worker(1.0):
        starting.started[0].usable = False
    assert starting.started[0].ended == 1
    with pool.worker(0.0):
        assert len(starting.started) == 2


def test_one_that_died_while_it_was_idle_costs_no_query() -> None:
    starting = _Starting()
    pool = _held(starting, 1)
    with pool.worker(1.0):
        pass
    starting.started[0].alive = False
    with pool.worker(0.0) as worker:
        assert worker is starting.workers[1]
    with pool.worker(0.0) as worker:
        assert worker is starting.workers[1]


def test_a_start_that_fails_takes_no_place() -> None:
    starting = _Starting(failures=2)
    pool = _held(starting, 1)
    for _ in range(2):
        with pytest.raises(Internal), pool.worker(0.0):
            pass
    with pool.worker(0.0):
        assert len(starting.started) == 1


def test_the_last_one_to_let_go_ends_them_and_they_come_back_if_needed() -> None:
    starting = _Starting()
    pool = Pool(starting, 2, "processes for it")
    first, second = pool.hold(), pool.hold()
    with pool.worker(1.0):
        pass
    for _ in range(2):
        first()
        assert starting.started[0].ended == 0, "whoever lets go twice lets go of nothing else"
    with pool.worker(1.0):
        with pool.worker(1.0):
            pass
        second()
        assert [one.ended for one in starting.started] == [0, 1], "a busy one ends after its query"
    assert [one.ended for one in starting.started] == [1, 1]
    with pool.worker(1.0):
        assert len(starting.started) == 3
    assert starting.started[2].ended == 1, "nothing holds it"


def test_who_waits_for_a_worker_is_sent_away_when_cancelled_and_takes_none() -> None:
    pool, cancellation = _held(_Starting(), 1), Cancellation()

    def lent() -> None:
        with pool.worker(PATIENCE, cancellation):
            pass

    with pool.worker(1.0), ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(lent)
        wait([waiting], 0.1)
        cancellation.cancel()
        with pytest.raises(Canceled):
            waiting.result()
    with pool.worker(0.0) as again:
        assert again.usable
