from __future__ import annotations

import threading
from contextvars import ContextVar

import pytest

from lakewarden.base.threads import at_once

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
