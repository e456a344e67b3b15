"""Calls that take too long are interrupted once, and no call after its end."""

from __future__ import annotations

import threading
from functools import partial

from lakewarden.sql.deadline import Deadlines


def test_what_takes_too_long_is_interrupted() -> None:
    deadlines = Deadlines(0.01)
    for _ in range(2):  # the thread that watches goes on
        interrupted = threading.Event()
        with deadlines.limit(interrupted.set):
            assert interrupted.wait(30)


def test_only_the_call_that_is_late_is_interrupted() -> None:
    deadlines = Deadlines(3600)
    called: list[int] = []
    for number in range(100):
        with deadlines.limit(partial(called.append, number)):
            pass
    assert not called
    assert not deadlines._running
