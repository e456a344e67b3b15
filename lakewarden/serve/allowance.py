"""What one user may take of one server process: requests at the same time, and requests in a minute."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from lakewarden.clock import Clock, to_millis
from lakewarden.serve.declined import Declined
from lakewarden.settings import ServeSettings

_MINUTE = 60_000


@dataclass
class Allowance:
    """Counts by user. Safe for threads."""

    settings: ServeSettings
    clock: Clock
    _running: Counter[str] = field(default_factory=Counter)
    _taken: Counter[str] = field(default_factory=Counter)
    _minute: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def of(self, user: str) -> Iterator[None]:
        """Counts a request of the user for as long as it runs.

        Raises:
            Declined: the user runs too many at the same time, or had too many in this minute.
        """
        self._begin(user)
        try:
            yield
        finally:
            self._end(user)

    def _begin(self, user: str) -> None:
        most, rate = self.settings.concurrent_per_user, self.settings.requests_per_minute
        minute = to_millis(self.clock()) // _MINUTE
        with self._lock:
            if minute != self._minute:
                self._minute = minute
                self._taken.clear()
            if self._taken[user] >= rate:
                raise Declined(
                    429, f"user {user!r} sent {rate:,} requests in this minute: wait for the next (serve.requests_per_minute)"
                )
            if self._running[user] >= most:
                raise Declined(429, f"user {user!r} runs {most:,} requests: wait for one to end (serve.concurrent_per_user)")
            self._taken[user] += 1
            self._running[user] += 1

    def _end(self, user: str) -> None:
        with self._lock:
            self._running[user] -= 1
            if not self._running[user]:
                del self._running[user]
