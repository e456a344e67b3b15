"""Drains one scope: moves its pending rows from the log into its table, each exactly once.

Generic over the rows and over the cold side, so that the simulation runs this very code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.base.faults import Reach, no_faults
from lakewarden.catalog.model import TableSchema
from lakewarden.errors import Conflict, Corrupt
from lakewarden.log.log_reader import LogReader
from lakewarden.log.objects.log_view import LogView
from lakewarden.log.position import NOTHING
from lakewarden.log.record import SEQ, decode
from lakewarden.log.view import PendingRows
from lakewarden.storage.objects import Missing
from lakewarden.storage.steps import Steps

R = TypeVar("R")
R_contra = TypeVar("R_contra", contravariant=True)


class HotScope(Protocol[R]):
    """The rows that the log holds for one scope, as of one read of the log."""

    @property
    def end(self) -> int:
        """The last possible `_seq` of what was read: the log's end at that time, not the scope's."""
        ...

    def rows(self) -> R:
        """Returns all pending rows, ascending by `_seq`. Raises `Missing` when they were cleaned up meanwhile."""
        ...

    def later(self, rows: R, after: int) -> R | None:
        """Returns the rows with a `_seq` above `after`; None if there are no such rows."""
        ...

    def again(self) -> HotScope[R]:
        """Reads the log again."""
        ...


class ColdScope(Protocol[R_contra]):
    """One snapshot of the scope's table."""

    def watermark(self) -> int | None:
        """Returns the `_seq` up to which the table holds the log's rows; None when it does not hold any yet."""
        ...

    def commit(self, rows: R_contra, end: int) -> Steps[None]:
        """Applies rows and raises the watermark to `end` in one commit that directly follows this snapshot.

        It keeps no rows across a step. It also commits when the rows change nothing (a tombstone without its key): a slower
        flush must notice that it is late.
        Raises `Conflict` if another commit came first.
        """
        ...


class SnapshotSource(Protocol):
    """A snapshot of the scope's table, for reading."""

    def watermark(self) -> int | None: ...


C = TypeVar("C", bound=SnapshotSource)


@dataclass(frozen=True)
class DrainResult:
    """The result of a drain. `settled` may be passed to `settle` once the commit is durable."""

    settled: int
    committed: bool


def drain(
    hot: HotScope[R], open_cold: Callable[[], ColdScope[R]], *, attempts: int, reach: Reach = no_faults
) -> Steps[DrainResult]:
    """Commits the scope's pending rows to its table.

    Raises:
        Conflict: another commit came first in every attempt.
        Corrupt: the table's watermark is beyond the log's end.
    """
    failure = Conflict("no attempt was made")
    for _ in range(attempts):
        cold = open_cold()
        reach("drain:opened")
        # Read from the very snapshot that the commit has to follow: a flush that came between changes both.
        watermark = _checked(cold.watermark(), hot)
        try:
            # At or below the watermark another flush has committed them: a crash between its commit and its cut leaves exactly
            # this.
            rows = hot.later(hot.rows(), watermark) if watermark < hot.end else None
        except Missing as missing:
            failure = Conflict(f"{missing} was settled by another flush meanwhile")
            hot = hot.again()
            continue
        reach("drain:read")
        if rows is None:
            # Nothing of this scope is left up to the log's end, which another's flush may have passed.
            return DrainResult(max(watermark, hot.end), committed=False)
        # Up to the log's end, and not to the scope's last row: no row can come at or below a position that is taken.
        committing = cold.commit(rows, hot.end)
        del rows  # frees memory for other scopes while this one waits
        try:
            yield from committing
        except Conflict as conflict:
            failure = conflict
            continue
        reach("drain:committed")
        return DrainResult(hot.end, committed=True)
    raise Conflict(f"another commit came first in all {attempts} attempts; the last time: {failure.message}") from failure


@dataclass(frozen=True)
class StrongRead(Generic[R, C]):
    """`rows` are newer than the table's snapshot `cold`. A caller that writes what follows from them appends after `end`."""

    rows: R | None
    cold: C
    end: int


def read_hot(look: Callable[[], HotScope[R]], open_cold: Callable[[], C], *, attempts: int = 20) -> StrongRead[R, C]:
    """Makes a strong read: the rows of the log that the table does not have, and the matching snapshot of the table.

    The log is read first. In the other order a flush and a cleanup in between would hide rows from both.

    Raises:
        Conflict: the rows were cleaned up during the read in every attempt.
        Corrupt: the table's watermark is beyond the log's end.
    """
    hot = look()
    for _ in range(attempts):
        try:
            rows = hot.rows()
        except Missing:
            hot = hot.again()
            continue
        cold = open_cold()
        return StrongRead(hot.later(rows, _checked(cold.watermark(), hot)), cold, hot.end)
    raise Conflict(f"the pending rows were settled by flushes {attempts} times while they were read; read again")


def _checked(watermark: int | None, hot: HotScope[R]) -> int:
    """Returns the watermark if it can belong to this log: a flush that started later may have raised it beyond our view."""
    if watermark is None:
        return NOTHING
    # A flush that read a longer log may have committed since; only a log that is shorter now shows a foreign table.
    if watermark > hot.end and watermark > (end := hot.again().end):
        raise Corrupt(
            f"the table's watermark {watermark} is beyond the end of its write log ({end}): the table was copied, imported, "
            "or belongs to another warehouse; rows appended to it would never be seen. If the warehouse's state came from a"
            " backup, `lakewarden repair --restored` makes the two agree"
        )
    return watermark


# One scope's part of a table's log, in Arrow: the input of flushes and strong reads.
@dataclass(frozen=True)
class LogScope:
    """A `HotScope` (log.drain)."""

    log: LogReader
    user: str
    schemas: tuple[TableSchema, ...]
    end: int
    pending: PendingRows | None
    for_flush: bool = False
    """As in `LogReader.rows`."""

    @classmethod
    def of(cls, log: LogReader, view: LogView, user: str, schemas: tuple[TableSchema, ...]) -> LogScope:
        return cls(log, user, schemas, view.end, view.pending.get(user))

    def rows(self) -> pa.Table:
        if self.pending is None:
            return decode([], [], self.schemas)
        return self.log.rows(self.pending, self.schemas, for_flush=self.for_flush)

    def later(self, rows: pa.Table, after: int) -> pa.Table | None:
        if not len(rows) or rows.column(SEQ)[-1].as_py() <= after:
            return None
        return rows if rows.column(SEQ)[0].as_py() > after else rows.filter(pc.field(SEQ) > after)

    def again(self) -> LogScope:
        log = self.log.anew()
        view = log.view((self.user,))
        # The view's end becomes the table's watermark, and a crash must not take those segments back
        # (docs/decisions/0018-links-and-lost-positions.md).
        log.make_durable(view)
        return replace(self, end=view.end, pending=view.pending.get(self.user))
