"""Data files that tasks write and one commit names: each task's rows, whatever they come from, and what becomes of all tasks."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from typing import TypeVar

import numpy as np
import pyarrow as pa

from lakewarden.base.arrays import numbers
from lakewarden.catalog.target import ScopeTarget
from lakewarden.errors import InvalidArgument, LakewardenError
from lakewarden.log.position import WHOLE
from lakewarden.storage.steps import Steps
from lakewarden.tables.direct.outputs import PartWriter, TaskOutput, file_rows, remove_written
from lakewarden.tables.fanout import Run, SizedWork, done_and_failed

T = TypeVar("T")
S = TypeVar("S")


class TaskNumbers:
    """Gives the rows of a task the `_seq` that were reserved for it.

    Args:
        most: how many there are, at most `WHOLE`.
        too_many: the message of the error where the task has more rows.
    """

    def __init__(self, target: ScopeTarget, first_seq: int, most: int = WHOLE, too_many: str = "") -> None:
        self._target = target
        self._next = first_seq
        # Numbers behind it may be another task's.
        self._end = first_seq + min(most, WHOLE)
        self._too_many = too_many

    @property
    def left(self) -> int:
        return self._end - self._next

    def numbered(self, rows: pa.Table) -> pa.Table:
        """The rows in the types of the table's files, with their `_seq`. Raises `InvalidArgument` where none are left."""
        first, self._next = self._next, self._next + rows.num_rows
        if self._next > self._end:
            raise InvalidArgument(self._too_many)
        return file_rows(self._target, rows, numbers(np.arange(first, self._next)))


def write_rows(
    target: ScopeTarget, rows: Generator[pa.Table, None, None], said: S
) -> Steps[tuple[TaskOutput, S] | LakewardenError]:
    """Writes the rows of a task, complete and numbered; those of one data file are in memory. An error is a value, since a task
    of Spark cannot raise it, and what was written is gone then.

    Args:
        rows: is closed behind the last one, so it may hold what they are read from.
        said: what the task answers besides, which may change until all rows are written.
    """
    writer = PartWriter(target)
    try:
        with closing(rows):
            writer.write_all(rows)
        yield target.uri
    except LakewardenError as error:
        # Here, where the names are known: the driver sees only the error.
        remove_written(target, [writer.written()])
        return error
    return writer.written(), said


def all_written(
    run: Run,
    target: ScopeTarget,
    work: Callable[[T], Steps[tuple[TaskOutput, S] | LakewardenError]],
    items: Sequence[SizedWork[T]],
) -> tuple[list[TaskOutput], list[S]]:
    """What each task wrote, and what each says, in their order. Raises the error of the first that has one; what the others wrote
    is gone then."""
    done, failed = done_and_failed(run(work, items))
    if failed is not None:
        remove_written(target, [written for written, _ in done])
        raise failed
    return [written for written, _ in done], [said for _, said in done]
