from __future__ import annotations

import threading
from contextvars import ContextVar

import pytest

from lakewarden.base.threads import ComputeLock, at_once

WHO: ContextVar[str] = ContextVar("WHO", default="")


def test_results_come_in_the_order_of_the_items_and_the_work_sees_its_callers_context() -> None:
    WHO.set("ann")
    together = threading.Barrier(4)

    def work(number: int) -> tuple[int, str, bool]:
        together.wait(30)  # all four are at work at the same time, or this fails
        return number, WHO.get(), threading.current_thread() is threading.main_thread()

    assert at_once(work, range(4), 4) == [(number, "ann", False) for number in range(4)]


@pytest.mark.parametrize(("items", "threads"), [([], 8), ([1], 8), ([1, 2], 1)])
def test_what_needs_no_thread_is_done_in_the_callers(items: list[int], threads: int) -> None:
    assert set(at_once(lambda _: threading.current_thread(), items, threads)) <= {threading.main_thread()}


def test_the_first_error_is_raised_and_the_rest_is_left() -> None:
    begun: list[int] = []
    failed = threading.Event()

    def work(number: int) -> None:
        begun.append(number)
        if number == 0:
            raise ValueError("the first")
        failed.wait(0.2)

    with pytest.raises(ValueError, match="the first"):
        at_once(work, range(100), 2)
    assert len(begun) < 20


def test_of_the_threads_that_hold_a_lock_one_computes_and_others_wait_for_a_store() -> None:
    computing, answered = ComputeLock(), threading.Event()
    order: list[str] = []

    def waits() -> None:
        with computing.held():
            order.append("asks")
            with computing.let_go():
                assert answered.wait(30)  # which another sets while it holds the lock
                order.append("answered")
            order.append("goes on")

    def answers() -> None:
        with computing.held():
            order.append("computes")
            answered.set()
            while "answered" not in order:  # the one that was answered waits until this one ends
                threading.Event().wait(0.001)
            order.append("ends")

    first = threading.Thread(target=waits)
    first.start()
    while not order:
        threading.Event().wait(0.001)
    answers()
    first.join(30)
    assert order == ["asks", "computes", "answered", "ends", "goes on"]


def test_a_lock_that_another_thread_holds_is_not_let_go() -> None:
    computing = ComputeLock()

    def tries() -> bool:
        with computing.let_go(), computing.held():
            return True

    with computing.held():
        other = threading.Thread(target=tries, daemon=True)
        other.start()
        other.join(0.1)
        assert other.is_alive()
    other.join(30)
    assert not other.is_alive()


def test_an_error_while_it_is_let_go_leaves_the_lock_with_its_holder() -> None:
    computing = ComputeLock()
    with computing.held():
        with pytest.raises(ValueError, match="no answer"), computing.let_go():
            raise ValueError("no answer")
        with computing.let_go(), computing.held():
            pass
    with computing.held():
        pass
