"""Runs work in steps, so that what is written is durable before anything names it, with few syncs for many scopes.

Work is a generator: `yield uri` says that all it has written below that place must be durable before it continues.
Many works advance together, each by one step; then one sync per file system serves them all, until the last step.
Work must hold nothing large across a `yield`: a hundred others wait beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Generic, TypeVar

from lakewarden.errors import LakewardenError
from lakewarden.storage.disk import sync_each

T = TypeVar("T")
R = TypeVar("R")

Steps = Generator[str, None, R]
"""A generator that yields places and returns the result."""

AT_ONCE = 100
"""How many works advance together. Each keeps a snapshot of its table, some hundred kilobytes, from its first step on."""

Each = Callable[[Callable[[Any], None], Iterable[Any]], Iterable[None]]
"""Like the builtin `map`: calls the function with every item, perhaps several at the same time."""


@dataclass
class _Work(Generic[R]):
    """A work under way: the place that it waits for, or its result."""

    steps: Steps[R]
    finished: Callable[[], None]
    context: Context = field(default_factory=copy_context)
    """What it sets for itself, as whose requests it makes, holds for its other steps too, whichever thread they are done in."""
    waits_for: str | None = None
    failure: LakewardenError | None = None
    result: R | None = None

    def advance(self) -> None:
        failure, self.failure, self.waits_for = self.failure, None, None
        try:
            if failure is None:
                # In its own context: a step may run in another thread than the one before.
                self.waits_for = self.context.run(next, self.steps)
            else:
                self.waits_for = self.context.run(self.steps.throw, failure)
        except StopIteration as end:
            self.result = end.value
            self.finished()


def together(works: Iterable[Steps[R]], each: Each = map, finished: Callable[[], None] = lambda: None) -> list[R]:
    """Returns the results of all works, in their order. At most `AT_ONCE` run together.

    A failed sync is raised in the works that wait for it: nothing that they wrote gets a name.

    Args:
        each: advances every given work by one step.
        finished: called when a work is done, perhaps in several threads at once.

    Raises:
        Exception: whatever one of the works raises; the others do not continue.
    """
    results: list[R] = []
    rest = iter(works)
    # In packs, since each work keeps its snapshot in memory until its last step.
    while pack := [_Work(steps, finished) for steps in islice(rest, AT_ONCE)]:
        waiting = pack
        while waiting:
            list(each(_Work.advance, waiting))
            waiting = [work for work in waiting if work.waits_for is not None]
            # One sync for all works that wait for the same file system: the cost does not grow with the scopes
            # (docs/decisions/0019-durable-before-named.md).
            failed = sync_each({str(work.waits_for) for work in waiting})
            for work in waiting:
                # Raised inside the work, at its `yield`: so it names nothing, and cleans up what it wrote.
                work.failure = failed.get(str(work.waits_for))
        results += (work.result for work in pack)  # type: ignore[misc]  # all have ended
    return results


def alone(work: Steps[R]) -> R:
    """Returns the result of one work."""
    (result,) = together([work])
    return result


def in_one_step(work: Callable[[T], R], item: T) -> Steps[R]:
    """Wraps work that writes nothing that must be durable before something else."""
    yield from ()
    return work(item)
