"""Threads that work in the context of whoever gave them the work: what is carried there, and whose requests these are."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Threads(ThreadPoolExecutor):
    """A pool whose work sees the context variables of its caller."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        context = copy_context()
        return super().submit(lambda: context.run(fn, *args, **kwargs))
