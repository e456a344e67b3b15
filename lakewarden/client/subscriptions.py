"""`lake.subscriptions`: the subscriptions of a warehouse."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakewarden.base.clock import Pause, wait
from lakewarden.catalog.state.processes import LiveQueries, LiveQuery
from lakewarden.client.parts import Noun
from lakewarden.client.sessions import SqlCalls

if TYPE_CHECKING:
    from lakewarden.tables.changes.subscription import Subscription


class SubscriptionCalls(Noun):
    """The calls of `lake.subscriptions`, as `Lakehouse` has them."""

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
        """The rows that a query selects, then each change to them: docs/subscriptions.md.

        Args:
            text: `SELECT … FROM namespace.table [WHERE …]` over one table, or a SUBSCRIBE statement.
            user, role: as in `SqlCalls.sql`.
            from_seq: the last `_seq` that was delivered before; only changes after it are delivered, without initial
                rows. -1 is before the first.
            last_rows: the number of newest rows to begin with; by default all.
            batch_size: the number of rows read at once.
            interval: seconds between two polls of the log while iterating.
            timeout: seconds without an event after which the iteration ends; None for never.
            pause: waits for a number of seconds.

        Raises:
            BadSyntax, InvalidArgument, Unsupported: the text requests more than rows of one table, or `from_seq` is too old:
                the message names the oldest valid one.
            NotFound, PermissionDenied: the table does not exist, or the session may not read it.
        """
        return (
            SqlCalls(self._parts)
            .session(user=user, role=role)
            .subscribe(
                text,
                from_seq=from_seq,
                last_rows=last_rows,
                batch_size=batch_size,
                interval=interval,
                timeout=timeout,
                pause=pause,
            )
        )

    def live_queries(self) -> list[LiveQuery]:
        """The subscriptions of every process, oldest first."""
        return LiveQueries(self._parts.warehouse.state).there(self._parts.warehouse.clock())

    def kill_live_query(self, live_id: str) -> LiveQuery:
        """Ends a subscription in any process, at its next poll.

        Raises:
            NotFound: the subscription does not exist.
        """
        return LiveQueries(self._parts.warehouse.state).kill(live_id)


class Subscriptions(SubscriptionCalls):
    """`lake.subscriptions`."""

    kill = SubscriptionCalls.kill_live_query
