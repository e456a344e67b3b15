"""The SQL sessions that are open in this process, for `system.sessions`."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from typing import Protocol
from weakref import WeakSet

from lakewarden.base.scope import TableName


@dataclass(frozen=True)
class OpenBlock:
    """What `system.transactions` shows of a block. `table` and `user` are those of the rows that it keeps."""

    started_at: datetime
    failed: bool
    table: TableName | None
    user: str | None
    rows: int
    bytes: int


@dataclass(frozen=True)
class OpenSession:
    """A session's current state. `namespace` is the one in use; `actor` acts as the user by EXECUTE AS USER; `block` is the one
    that is open."""

    number: int
    user: str
    role: str
    actor: str | None
    namespace: str | None
    opened_at: datetime
    block: OpenBlock | None = None


class SessionInfo(Protocol):
    def describe(self) -> OpenSession: ...


class Sessions:
    """Lists sessions by weak references: one that has no other reference is over. Safe for threads."""

    def __init__(self) -> None:
        self._open: WeakSet[SessionInfo] = WeakSet()
        self._lock = threading.Lock()
        self._numbers = count(1)

    def add(self, session: SessionInfo) -> int:
        """Returns the session's number in this process."""
        with self._lock:
            self._open.add(session)
            return next(self._numbers)

    def now(self) -> list[OpenSession]:
        """The open sessions, oldest first."""
        with self._lock:
            found = list(self._open)
        return sorted((each.describe() for each in found), key=lambda one: one.number)
