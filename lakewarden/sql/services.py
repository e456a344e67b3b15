"""The services that statements use."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from typing import TYPE_CHECKING, Protocol
from weakref import WeakSet

from lakewarden.base.scope import TableName
from lakewarden.catalog.access import OPERATOR, Principal
from lakewarden.sql.query_engine.engine import QueryEngine
from lakewarden.tables.warehouse import Warehouse

if TYPE_CHECKING:
    from lakewarden.maintenance.operator import Operator
    from lakewarden.tables.changes.log_reader import Feeds


# The SQL sessions that are open in this process, for `system.sessions`.
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


@dataclass(frozen=True)
class Services:
    """Created once for an open warehouse; all its sessions share them."""

    warehouse: Warehouse
    engine: QueryEngine
    """In this process, for the operator."""
    workers: QueryEngine
    """In processes of their own, for every other session."""
    sessions: Sessions
    operator: Callable[[], Operator]
    """Runs operations as jobs. A function, since it imports all operations, which a query does not need."""
    feeds: Callable[[], Feeds]
    """One reader of each table's log, for all subscriptions of the process. A function for the same reason."""
    served: bool = False
    """Whether the sessions are opened over a network: then the bounds hold for every one of them, also for `root` as `system`."""

    def engine_for(self, principal: Principal) -> QueryEngine:
        return self.engine if self.trusts(principal) else self.workers

    def trusts(self, principal: Principal) -> bool:
        """Whether the operator opened the session: its statements run in this process, and its texts have no bounds."""
        return not self.served and principal.opener == OPERATOR
