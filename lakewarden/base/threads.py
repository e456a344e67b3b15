"""Threads that work in the context of whoever gave them the work: what is carried there, and whose requests these are."""

from __future__ import annotations

import threading
from collections import deque
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


class QueuedTurns:
    """Turns by name, in the order in which they were asked for. Safe for threads.

    A lock of Python's goes to whoever runs when it is free, most often the thread that had it: of 64 clients, one would wait
    for several times the turns of the others.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queues: dict[str, deque[tuple[int, threading.Lock]]] = {}
        """By name, the threads that wait behind the one that has the turn, which is there once for each time that it entered."""

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        """Waits for the turn, and has it for the block. It may be entered again by the thread that has it."""
        own = threading.get_ident(), threading.Lock()
        try:
            if self._waits(name, own):
                own[1].acquire()
            yield
        finally:
            self._leave(name, own)

    def _waits(self, name: str, own: tuple[int, threading.Lock]) -> bool:
        """Queues up; whether another thread has the turn. It releases the lock of the next one when it leaves."""
        with self._lock:
            queue = self._queues.setdefault(name, deque())
            if queue and queue[0][0] != own[0]:
                own[1].acquire()
                queue.append(own)
                return True
            # In front: the turn is free, or the thread has it already.
            queue.appendleft(own)
            return False

    def _leave(self, name: str, own: tuple[int, threading.Lock]) -> None:
        with self._lock:
            queue = self._queues.get(name, deque())
            if own not in queue:
                return  # interrupted before it stood there
            had_it = queue[0] is own  # else it was interrupted while it waited
            queue.remove(own)
            if not queue:
                del self._queues[name]
            # A thread that entered twice still has the turn after it left once.
            elif had_it and queue[0][0] != own[0]:
                queue[0][1].release()
