"""Runs work over many scopes, packed by estimated bytes, so that a fault in one scope does not affect the others.

Where the packs run (this process, or Spark's tasks) is the caller's choice; the work is the same plain function.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Generic, Protocol, TypeVar

from lakewarden.base.clock import Clock
from lakewarden.base.quantities import portions
from lakewarden.catalog.operations import Operation
from lakewarden.catalog.report import Fault, ScopeReport
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.lifecycle.states import check_not_frozen
from lakewarden.delta.scope import open_place
from lakewarden.errors import Conflict, LakewardenError, Transient
from lakewarden.storage.meter import count_for
from lakewarden.storage.owner import named_by
from lakewarden.storage.steps import Steps, together

T = TypeVar("T")
R = TypeVar("R")

_THREADS_ON_DISK = 2
"""Threads for small scopes in one process. On a disk they compute most of the time: more of them take turns with the
interpreter so often that each scope costs a quarter more."""

_THREADS = 4
"""The same where they mostly wait for an object store."""


@dataclass(frozen=True)
class SizedWork(Generic[T]):
    """A piece of work and its estimated bytes."""

    work: T
    bytes: int
    on_disk: bool = False
    """Whether no object store is waited for."""


Advance = Callable[[int], None]
"""Called with the number of further scopes that are finished."""


class FanOut(Protocol):
    """Runs the steps of `work` over every item, anywhere, and returns the results in the order of the items."""

    def __call__(self, work: Callable[[T], Steps[R]], items: Sequence[SizedWork[T]], advance: Advance) -> list[R]: ...


class Run(Protocol):
    """Runs work on a chosen `FanOut` and shows its progress (`engine.Engine.run`)."""

    def __call__(self, work: Callable[[T], Steps[R]], items: Sequence[SizedWork[T]]) -> list[R]: ...


def pack(items: Sequence[SizedWork[T]], *, max_bytes: int, max_items: int) -> list[list[int]]:
    """Indexes of the items, in packs of at most this many bytes and items; the heaviest packs first.

    An item above `max_bytes` gets a pack of its own, so that one big tenant does not hold up thousands.
    """
    heaviest_first = sorted(range(len(items)), key=lambda i: -items[i].bytes)
    return list(portions(heaviest_first, lambda i: items[i].bytes, max_bytes, max_items))


def in_process(work: Callable[[T], Steps[R]], items: Sequence[SizedWork[T]], advance: Advance) -> list[R]:
    """A `FanOut` for a few small scopes: no JVM, a few threads."""
    with threads_for(items) as pool:
        return together((work(item.work) for item in items), pool.map, partial(advance, 1))


def threads_for(items: Sequence[SizedWork[T]]) -> ThreadPoolExecutor:
    """The few threads of this process that suit them. Each work brings the context of its caller (`together`)."""
    return ThreadPoolExecutor(_THREADS_ON_DISK if all(item.on_disk for item in items) else _THREADS)


def run_here(work: Callable[[T], Steps[R]], items: Sequence[SizedWork[T]]) -> list[R]:
    """A `Run` in this process."""
    return in_process(work, items, lambda _done: None)


def or_error(work: Callable[[T], R], item: T) -> R | LakewardenError:
    """What the work returns, or its error as a value: a task of Spark cannot raise it."""
    try:
        return work(item)
    except LakewardenError as error:
        return error


def done_and_failed(found: Iterable[R | LakewardenError]) -> tuple[list[R], LakewardenError | None]:
    """The results of the tasks that succeeded, and the first error of those whose result it is."""
    done, errors = list[R](), list[LakewardenError]()
    for each in found:
        if isinstance(each, LakewardenError):
            errors.append(each)
        else:
            done.append(each)
    return done, next(iter(errors), None)


def fault_of(error: Exception) -> Fault:
    """The error as a value. One that is not a `LakewardenError` is a bug, and keeps its location."""
    if isinstance(error, LakewardenError):
        return Fault(error.code, error.message, isinstance(error, Transient))
    where = traceback.extract_tb(error.__traceback__)[-1]
    return Fault("INTERNAL", f"{type(error).__name__}: {error} (in {where.name}, line {where.lineno} of {where.filename})", False)


def guarded(target: ScopeTarget, operation: Operation, clock: Clock, steps: Steps[ScopeReport]) -> Steps[ScopeReport]:
    """Wraps the work on one scope: whatever it raises becomes that scope's report.

    The one broad `except` of a task: among thousands of scopes, an unforeseen fault in one must not end the others' work.
    """
    begin_scope(target)
    try:
        return (yield from steps)
    except Exception as error:  # noqa: BLE001  # reported as INTERNAL with its place, and the job fails for it
        return fault_report(target, operation, error, clock())


def begin_scope(target: ScopeTarget) -> None:
    """The requests of this work are counted for the scope's table."""
    count_for(target.floor.table_id if target.floor is not None else "")


def fault_report(target: ScopeTarget, operation: Operation, error: Exception, now: datetime) -> ScopeReport:
    """The report of a scope whose work ended by this error; where the scope was moved meanwhile, that says why."""
    moved = None if isinstance(error, Transient) or operation == "move" else _moved(target)
    return failed_report(target, operation, moved or error, now)


def failed_report(target: ScopeTarget, operation: Operation, error: Exception, now: datetime) -> ScopeReport:
    """The report of a scope on which the operation could not be done."""
    fault = fault_of(named_by(target.root, error) if isinstance(error, LakewardenError) else error)
    return ScopeReport(target.scope, operation, "failed", target.location, reason=fault.message, fault=fault, finished_at=now)


def _moved(target: ScopeTarget) -> Conflict | None:
    """Says why the work failed if the scope was moved meanwhile: files that it needed may be gone."""
    try:
        check_not_frozen(open_place(target), target)
    except Conflict as conflict:
        return conflict
    except LakewardenError:
        pass  # the work's own error says more
    return None
