"""Calls that take too long are interrupted once, and no call after its end."""

from __future__ import annotations

import threading
from functools import partial

from lakewarden.sql.query_engine.deadline import Deadlines
from tests.fixtures.patience import PATIENCE


def test_what_takes_too_long_is_interrupted() -> None:
    deadlines = Deadlines()
    for _ in range(2):  # the thread that watches goes on
        interrupted = threading.Event()
        with deadlines.limit(0.01, interrupted.set):
            assert interrupted.wait(PATIENCE)


def test_the_one_that_ends_first_is_interrupted_first() -> None:
    deadlines, early, late = Deadlines(), threading.Event(), threading.Event()
    with deadlines.limit(3600, late.set), deadlines.limit(0.01, early.set):
        assert early.wait(PATIENCE)
        assert not late.is_set()


def test_only_the_call_that_is_late_is_interrupted() -> None:
    deadlines = Deadlines()
    called: list[int] = []
    for number in range(100):
        with deadlines.limit(3600, partial(called.append, number)):
            pass
    assert not called
    assert not deadlines._running
