"""Limits how often something may fail, by who tries it. Counts are this process's own."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from lakewarden.base.clock import Clock

_KEPT = 10_000
"""Names that are counted at the same time; beyond, the one that failed longest ago is forgotten."""


@dataclass
class FailureCounter:
    """At most `most` failures of a name within a minute. Safe for threads."""

    clock: Clock
    most: int
    _failed: OrderedDict[str, list[datetime]] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def open(self, name: str) -> bool:
        """Whether the name may try again."""
        since = self.clock() - timedelta(minutes=1)
        with self._lock:
            return len([moment for moment in self._failed.get(name, ()) if moment > since]) < self.most

    def failed(self, name: str) -> None:
        with self._lock:
            self._failed[name] = [*self._failed.pop(name, ()), self.clock()][-self.most :]
            if len(self._failed) > _KEPT:
                self._failed.popitem(last=False)
