"""The store's time: the one clock that all processes of a log can read, by when an object was made there.

A process learns once by how much its own clock differs, from a cut that it has just made. From then on it says what the store
would say, up to a few seconds.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from lakewarden.base.clock import Clock
from lakewarden.log.objects import names
from lakewarden.storage.objects import ObjectStore

_TOLERATED = timedelta(seconds=30)
"""A smaller difference may be the time that a request takes."""


class StoreClock:
    """Safe for threads: who learns at the same time learns the same."""

    def __init__(self, store: ObjectStore, log_id: str, clock: Clock) -> None:
        self._store = store
        self._log_id = log_id
        self._clock = clock
        self._differs: timedelta | None = None

    def __call__(self) -> datetime:
        return self._clock() + (self._differs or timedelta())

    @property
    def differs(self) -> bool:
        """Whether it is known that the process's own clock is another one."""
        return bool(self._differs)

    @property
    def is_known(self) -> bool:
        return self._differs is not None

    def learn(self, version: int) -> None:
        """Compares the clocks, by a cut that this process has made just now; one that is gone already says nothing."""
        own, key = self._clock(), names.cut_key(self._log_id, version)
        made = next((each.modified for each in self._store.list(names.cuts(self._log_id)) if each.key == key), None)
        if made is not None:
            self._differs = made - own if abs(made - own) > _TOLERATED else timedelta()
