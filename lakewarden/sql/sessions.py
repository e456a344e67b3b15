"""The SQL sessions that are open in this process, for `system.sessions`."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from typing import Protocol
from weakref import WeakSet


@dataclass(frozen=True)
class OpenSession:
    """One session as it is now. `namespace` is the one in use; `actor` took the user's place by EXECUTE AS USER."""

    number: int
    user: str
    role: str
    actor: str | None
    namespace: str | None
    opened_at: datetime


class Described(Protocol):
    def describe(self) -> OpenSession: ...


class Sessions:
    """Holds no session: one that nobody has in hand any more is over. Safe for threads."""

    def __init__(self) -> None:
        self._open: WeakSet[Described] = WeakSet()
        self._lock = threading.Lock()
        self._numbers = count(1)

    def add(self, session: Described) -> int:
        """Returns the session's number in this process."""
        with self._lock:
            self._open.add(session)
            return next(self._numbers)

    def now(self) -> list[OpenSession]:
        """Those that are open, oldest first."""
        with self._lock:
            found = list(self._open)
        return sorted((each.describe() for each in found), key=lambda one: one.number)
