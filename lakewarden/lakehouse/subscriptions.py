"""The subscriptions of a warehouse."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakewarden.clock import Pause, wait
from lakewarden.lakehouse.sessions import SqlSessions
from lakewarden.state.live_queries import LiveQueries, LiveQuery
from lakewarden.warehouse import Warehouse

if TYPE_CHECKING:
    from lakewarden.live.subscription import Subscription


@dataclass(frozen=True)
class Subscriptions:
    """`lake.subscriptions`."""

    warehouse: Warehouse
    sessions: SqlSessions

    def subscribe(
        self,
        text: str,
        *,
        user: str = "root",
        role: str = "system",
        from_seq: int | None = None,
        last_rows: int | None = None,
        batch_size: int = 10_000,
        interval: float = 0.5,
        timeout: float | None = None,
        pause: Pause = wait,
    ) -> Subscription:
        """The rows that a query shows, then each change to them: docs/subscriptions.md.

        Args:
            text: `SELECT … FROM namespace.table [WHERE …]` over one table, or a SUBSCRIBE statement.
            user, role: as in `SqlSessions.sql`.
            from_seq: the last `_seq` that was delivered before; what came after it is told, and no rows to begin with. -1
                is before the first.
            last_rows: begin with so many of the newest rows; all where it is not given.
            batch_size: rows that are looked at at once.
            interval: seconds between two looks at the log, when it is iterated.
            timeout: seconds without an event after which iterating ends; None for never.
            pause: waits for so many seconds.

        Raises:
            BadSyntax, InvalidArgument, Unsupported: the text asks for more than rows of one table; or `from_seq` is too old:
                the message names the oldest that works.
            NotFound, PermissionDenied: there is no such table, or the session may not read it.
        """
        return self.sessions.open(user=user, role=role).subscribe(
            text,
            from_seq=from_seq,
            last_rows=last_rows,
            batch_size=batch_size,
            interval=interval,
            timeout=timeout,
            pause=pause,
        )

    def live_queries(self) -> list[LiveQuery]:
        """The subscriptions of every process, oldest first."""
        return LiveQueries(self.warehouse.state).there(self.warehouse.clock())

    def kill(self, live_id: str) -> LiveQuery:
        """Ends a subscription, wherever it is, at its next look.

        Raises:
            NotFound: there is none.
        """
        return LiveQueries(self.warehouse.state).kill(live_id)
