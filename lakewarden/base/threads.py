"""Threads that work in the context of whoever gave them the work: what is carried there, and whose requests these are."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar, copy_context
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")

_THREADS = 8
"""Threads for work that mostly waits for a store: it answers some requests at the same time about as fast as one."""


class Threads(ThreadPoolExecutor):
    """A pool whose work sees the context variables of its caller."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        context = copy_context()
        return super().submit(lambda: context.run(fn, *args, **kwargs))


@contextmanager
def within(variable: ContextVar[T], value: T) -> Iterator[None]:
    """The variable has the value in the block, for this thread and those that work for it."""
    before = variable.set(value)
    try:
        yield
    finally:
        variable.reset(before)


def at_once(work: Callable[[T], R], items: Iterable[T], threads: int = _THREADS) -> list[R]:
    """Returns what the work makes of each item, in their order; some are worked on at the same time.

    Raises the first error in the order of the items, once the work that had begun is done; the rest is left. A single item is
    worked on in the calling thread, which is spared a pool.
    """
    waiting = list(items)
    if len(waiting) < 2 or threads < 2:
        return [work(item) for item in waiting]
    with Threads(min(threads, len(waiting))) as pool:
        return list(pool.map(work, waiting))  # `map` cancels what has not begun when one fails


class ComputeLock:
    """Held by the one thread that computes, and let go of while it waits for a store.

    Python runs one thread at a time whatever they do. Threads that ask for the interpreter after each answer interrupt each other
    in the middle of their work, which takes a fifth more of a processor than to end it first.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holder = 0
        """The identity of the thread that holds it; 0 for none."""

    @contextmanager
    def held(self) -> Iterator[None]:
        """A thread that holds it already waits forever."""
        with self._lock:
            self._holder = threading.get_ident()
            try:
                yield
            finally:
                self._holder = 0

    def let_go(self) -> AbstractContextManager[None]:
        """In the block others may hold it. Nothing happens where this thread does not."""
        return self._passed_on() if self._holder == threading.get_ident() else nullcontext()

    @contextmanager
    def _passed_on(self) -> Iterator[None]:
        self._holder = 0
        self._lock.release()
        try:
            yield
        finally:
            self._lock.acquire()
            self._holder = threading.get_ident()


COMPUTING = ComputeLock()
"""Of this process. Requests to a store let go of it (`storage.remote`)."""
