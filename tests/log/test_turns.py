"""One thread after the other, by name; a name without a waiting thread leaves nothing behind."""

from __future__ import annotations

import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from lakewarden.base.threads import QueuedTurns
from tests.fixtures.patience import PATIENCE


def test_one_after_the_other_of_a_name_and_all_at_once_of_different_names() -> None:
    turns, first, others = QueuedTurns(), Event(), []

    def take(name: str) -> None:
        with turns.of(name):
            others.append(name)
            assert first.wait(PATIENCE) or name != "a"

    with ThreadPoolExecutor(3) as pool:
        took = pool.submit(take, "a")
        while others != ["a"]:
            assert not took.done()
        again = pool.submit(take, "a")
        while len(turns._queues["a"]) < 2:
            assert not again.done()
        with turns.of("b"):
            assert others == ["a"], "the second waits, and who has another name does not"
        first.set()
        took.result(PATIENCE)
        again.result(PATIENCE)
    assert others == ["a", "a"]
    assert turns._queues == {}


def test_who_has_the_turn_may_take_it_again_and_an_error_ends_it() -> None:
    turns = QueuedTurns()
    with turns.of("a"), turns.of("a"):
        pass
    with pytest.raises(ZeroDivisionError), turns.of("a"):
        raise ZeroDivisionError
    assert turns._queues == {}


def test_turns_come_in_the_order_in_which_they_were_asked_for() -> None:
    """Also where whoever had one asks for the next at once."""
    turns, had = QueuedTurns(), list[int]()

    def take(number: int) -> None:
        with turns.of("a"):
            had.append(number)

    with ThreadPoolExecutor(3) as pool:
        with turns.of("a"):
            for number in range(3):
                taking = pool.submit(take, number)
                while len(turns._queues["a"]) < number + 2:
                    assert not taking.done()
        take(3)
    assert had == [0, 1, 2, 3]


def test_who_is_interrupted_while_it_waits_has_no_turn() -> None:
    turns, over = QueuedTurns(), Event()

    def interrupt(*_: object) -> None:
        raise InterruptedError

    def hold() -> None:
        with turns.of("a"):
            over.set()
            while len(turns._queues["a"]) < 2:
                pass
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
            while len(turns._queues["a"]) > 1:
                pass

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with ThreadPoolExecutor(1) as pool:
            holds = pool.submit(hold)
            assert over.wait(PATIENCE)
            with pytest.raises(InterruptedError), turns.of("a"):
                raise AssertionError("another thread has the turn")
            holds.result(PATIENCE)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert turns._queues == {}
