"""Work in steps, so that what is written is durable before anything names it, at the price of few syncs for many scopes.

Work is a generator: `yield uri` says that all that it wrote below that place so far has to be durable before it goes on.
Many works are advanced together, each by one step, then one sync a file system serves them all, and so on to the last step.
Whoever writes so holds nothing large over a `yield`: a hundred others wait beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, TypeVar

from lakewarden.errors import LakewardenError
from lakewarden.storage.durability import sync_each

T = TypeVar("T")
R = TypeVar("R")

Steps = Generator[str, None, R]
"""Yields places, and returns the result."""

AT_ONCE = 100
"""Works that are advanced together: each keeps a snapshot of its table, some hundred kilobytes, from its first step on."""

Each = Callable[[Callable[[Any], None], Iterable[Any]], Iterable[None]]
"""As the builtin `map`: calls the function with every item, maybe several at the same time."""


@dataclass
class _Work(Generic[R]):
    """One of the works under way: what it waits for, or what came out."""

    steps: Steps[R]
    waits_for: str | None = None
    failure: LakewardenError | None = None
    result: R | None = None

    def advance(self) -> None:
        failure, self.failure, self.waits_for = self.failure, None, None
        try:
            self.waits_for = next(self.steps) if failure is None else self.steps.throw(failure)
        except StopIteration as end:
            self.result = end.value


def together(works: Iterable[Steps[R]], each: Each = map) -> list[R]:
    """The results of all works, in their order. At most `AT_ONCE` of them are under way.

    A sync that fails is raised in those works that wait for it: nothing that they wrote gets a name.

    Args:
        each: advances every work that it is given by one step.

    Raises:
        Exception: whatever one of them raises; the others go no further.
    """
    results: list[R] = []
    rest = iter(works)
    while pack := [_Work(steps) for steps in islice(rest, AT_ONCE)]:
        _to_the_end(pack, each)
        results += (work.result for work in pack)  # type: ignore[misc]  # all have ended
    return results


def _to_the_end(waiting: list[_Work[R]], each: Each) -> None:
    while waiting:
        list(each(_Work.advance, waiting))
        waiting = [work for work in waiting if work.waits_for is not None]
        failed = sync_each({str(work.waits_for) for work in waiting})
        for work in waiting:
            work.failure = failed.get(str(work.waits_for))


def alone(work: Steps[R]) -> R:
    """The result of one work."""
    (result,) = together([work])
    return result


def in_one_step(work: Callable[[T], R], item: T) -> Steps[R]:
    """Work that writes nothing which has to be durable before something else."""
    yield from ()
    return work(item)
