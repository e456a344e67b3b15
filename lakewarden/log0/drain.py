"""The flush of one scope: whatever was read, one strict commit, or a new start. The cold side is a parameter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.errors import Conflict, Corrupt
from lakewarden.log0.record import SEQ
from lakewarden.log0.view import after
from lakewarden.storage.objects import Missing


class ColdScope(Protocol):
    """A scope's table, opened once. What is committed is based on what was read, so of two flushes one is refused."""

    def watermark(self) -> int | None:
        """The last `_seq` that the table has settled; None before the first flush."""
        ...

    def commit(self, rows: pa.Table, end: int) -> None:
        """Applies the rows and sets the watermark to `end`, in one commit. Raises `Conflict` if any commit came between."""
        ...


C = TypeVar("C", bound=ColdScope)


def drain(
    open_cold: Callable[[], C], read: Callable[[], pa.Table], end: int, log_end: Callable[[], int], attempts: int
) -> C:
    """Brings the cold side to `end`, and returns it as it then is.

    Args:
        read: the scope's pending rows up to `end`.
        log_end: the last `_seq` that the partition has given out by now; looked up only when in doubt.

    Raises:
        Corrupt: the watermark lies beyond the partition's end: the table is a copy, or another warehouse's.
        Conflict: others committed in between `attempts` times.
    """
    lost: Exception | None = None
    for _ in range(attempts):
        cold = open_cold()
        watermark = cold.watermark()
        if watermark is not None and watermark >= end:
            _check(watermark, end, log_end)
            return cold
        try:
            rows = after(read(), watermark)
            rows = rows.filter(pc.less_equal(rows[SEQ], end))
            if rows.num_rows:
                cold.commit(rows, end)
            return cold
        except (Conflict, Missing) as error:
            lost = error  # somebody else committed, or settled what we were reading: look again
    raise Conflict(f"others committed {attempts} times in between; try again") from lost


def _check(watermark: int, end: int, log_end: Callable[[], int]) -> None:
    if watermark > end and watermark > (last := log_end()):
        raise Corrupt(f"its watermark {watermark} lies beyond the log's end {last}: the table was copied, or is another warehouse's")
