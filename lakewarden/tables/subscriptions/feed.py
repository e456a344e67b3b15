"""One process's reader of one table's log, shared by its subscribers; each reads from its own `_seq` on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lakewarden.catalog.state.live_queries import LiveQueries
from lakewarden.log.chunk import RowRange
from lakewarden.log.table_log import LogReader
from lakewarden.log.view import Trail

_MAX_BYTES = 128 << 20
"""Limit on chunks kept for the slowest subscriber; beyond it, that subscriber reads them again."""

_GONE = 60.0
"""Seconds after which chunks are no longer kept for a subscriber that does not poll."""

Timer = Callable[[], float]
"""Seconds from some moment on, as `time.monotonic`."""


@dataclass(frozen=True)
class Glance:
    """What one look at the log showed."""

    trail: Trail
    killed: frozenset[str]
    """Ids of subscriptions that have to end."""


class Feed:
    """Safe for threads."""

    def __init__(self, log: LogReader, live: LiveQueries, timer: Timer) -> None:
        self._log = log
        self._live = live
        self._timer = timer
        self._lock = threading.Lock()
        self._delivered: dict[str, tuple[int, float]] = {}
        """Up to which `_seq` each subscriber has read, and when that was."""
        self._last: tuple[float, Glance] | None = None
        self._chunks: dict[int, memoryview] = {}
        """By the `_seq` of the first row."""

    def look(self, live_id: str, after: int, max_age: float) -> Glance:
        """What is newer than what a subscriber has, as of now, or as another subscriber saw it up to `max_age` seconds ago."""
        with self._lock:
            began, last = self._timer(), self._last
            self._delivered[live_id] = (after, began)
            here = [seq for seq, at in self._delivered.values() if began - at < _GONE]
            if len(here) == 1 or last is None or last[1].trail.after > after or began - last[0] >= max_age:
                trail = self._log.trail(min(here))
                self._last = last = (began, Glance(trail, self._live.killed(self._log.log_id)))
                self._chunks = {first: data for first, data in self._chunks.items() if first > min(here)}
            return last[1]

    def chunks(self, ranges: Sequence[RowRange]) -> list[memoryview]:
        """The chunks' rows, each read once for all subscribers.

        Raises:
            Missing: they were removed meanwhile; look again.
        """
        with self._lock:
            return [self._chunk(each) for each in ranges]

    def _chunk(self, where: RowRange) -> memoryview:
        data = self._chunks.get(where.first_seq)
        if data is None:
            data = self._log.chunk(where)
            if sum(map(len, self._chunks.values())) + len(data) <= _MAX_BYTES:
                self._chunks[where.first_seq] = data
        return data

    def stale(self) -> None:
        """Makes the next look read the log again."""
        with self._lock:
            self._last = None

    def leave(self, live_id: str) -> bool:
        """Removes a subscriber; returns whether it was the last."""
        with self._lock:
            self._delivered.pop(live_id, None)
            return not self._delivered


class Feeds:
    """The feeds of one open warehouse, by log. Safe for threads."""

    def __init__(self, live: LiveQueries, timer: Timer) -> None:
        self._make: Callable[[LogReader], Feed] = lambda log: Feed(log, live, timer)
        self._feeds: dict[str, Feed] = {}
        self._lock = threading.Lock()

    def of(self, log: LogReader) -> Feed:
        with self._lock:
            return self._feeds.get(log.log_id) or self._feeds.setdefault(log.log_id, self._make(log))

    def leave(self, log_id: str, live_id: str) -> None:
        with self._lock:
            if log_id in self._feeds and self._feeds[log_id].leave(live_id):
                del self._feeds[log_id]
