"""Calls that take too long are interrupted once, and no call after its end."""

from __future__ import annotations

import subprocess
import sys
import threading
from functools import partial

import pytest

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


_FORKED_WHILE_IT_INTERRUPTS = """
import os, sys
from threading import Event
from lakewarden.sql.query_engine.deadline import Deadlines
interrupts, forked = Event(), Event()
def interrupt():
    interrupts.set()
    forked.wait()
deadlines = Deadlines()
with deadlines.limit(0, interrupt):
    interrupts.wait()
    child = os.fork()
    if child == 0:
        ended = Event()
        with deadlines.limit(0, ended.set):
            ended.wait()
        os._exit(7)
    forked.set()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.slow
def test_a_forked_process_interrupts_its_own_calls() -> None:
    """Also where the parent's thread held the lock at that moment."""
    ran = subprocess.run([sys.executable, "-W", "ignore", "-c", _FORKED_WHILE_IT_INTERRUPTS], check=False, timeout=60)
    assert ran.returncode == 7
