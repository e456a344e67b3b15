"""Generates the values of `SNOWFLAKE_ID()`: ids that fit a BIGINT, differ between processes and roughly follow time."""

from __future__ import annotations

import os
import threading
from datetime import UTC, datetime

from lakewarden.base.clock import NewId, random_id

_EPOCH_MILLIS = int(datetime(2025, 1, 1, tzinfo=UTC).timestamp() * 1000)
_WORKER_BITS = 17
_SEQUENCE_BITS = 8


class Snowflake:
    """One process's generator. Safe for threads.

    Bits, from the top: 38 of time in 64ths of a second (136 years), 17 of the process, 8 of sequence. A caller that
    takes more than 256 in a tick runs ahead of the clock (a million ids: a minute) rather than into another process's
    ids; two processes meet only if they drew the same 17 bits, at 1 in 131,072, and take ids in the same tick.
    """

    def __init__(self, new_id: NewId) -> None:
        self._new_id = new_id
        self._lock = threading.Lock()
        self._next = 0
        self._process = -1
        self._worker = 0

    def take(self, count: int, now: datetime) -> list[int]:
        """Returns the next ids, ascending and above all that this generator returned before."""
        millis = int(now.timestamp() * 1000) - _EPOCH_MILLIS
        with self._lock:
            self._be_own_process()
            first = max(self._next, (millis * 64 // 1000) << _SEQUENCE_BITS)
            self._next = first + count
            own = self._worker << _SEQUENCE_BITS
        low = (1 << _SEQUENCE_BITS) - 1
        return [((at & ~low) << _WORKER_BITS) | own | (at & low) for at in range(first, first + count)]

    def _be_own_process(self) -> None:
        if self._process != os.getpid():  # new, or forked
            self._process = os.getpid()
            self._worker = int(self._new_id(), 16) % (1 << _WORKER_BITS)


PROCESS_SNOWFLAKE = Snowflake(random_id)
"""One generator for the whole process: two could return the same id."""
