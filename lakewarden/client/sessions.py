"""`lake.sessions`: SQL over a warehouse, for one user in one role at a time; Spark's session, as the operator;
and `lake.subscriptions`, which are followed in such a session.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from lakewarden.base.clock import Pause, wait
from lakewarden.base.commit_metadata import Metadata, attaches
from lakewarden.catalog.changes.engines import namespace_of
from lakewarden.catalog.state.processes import LiveQueries, LiveQuery
from lakewarden.client.parts import Noun
from lakewarden.errors import FailedPrecondition

if TYPE_CHECKING:
    from lakewarden.catalog.access import Principal
    from lakewarden.spark.session import SparkSession
    from lakewarden.sql.context import Services
    from lakewarden.sql.results import Result
    from lakewarden.sql.session import SqlSession
    from lakewarden.sql.uploads import File
    from lakewarden.tables.changes.subscription import Subscription
    from lakewarden.tables.freshness import Freshness


_ONE_REQUEST = (
    "a request has no transaction block: each statement of its text takes effect by itself. Blocks are for PostgreSQL's protocol,"
    " `lake.session(…)` and `lakewarden sql`"
)


class SqlCalls(Noun):
    """The calls of `lake.sessions` that `Lakehouse` has, too."""

    @attaches
    def sql(
        self,
        text: str,
        *,
        user: str = "root",
        role: str = "system",
        freshness: Freshness | None = None,
        wait: bool = True,
        files: Mapping[str, File] | None = None,
        each: Callable[[Result], None] | None = None,
        metadata: Metadata | None = None,
    ) -> list[Result]:
        """Runs the statements of a text in order. The syntax and rights of all are checked before any runs.

        Args:
            user: the user whose rows it sees and writes in USER tables.
            role: anonymous, user, service, dba or system.
            freshness: of queries; `strong` unless the text sets another.
            wait: runs the jobs that a statement starts before the next one; else they stay queued for `run_jobs`.
            files: the attached files by the name of their `FILE('name')` in VALUES: bytes, a `Path`, or an `Upload`.
            each: receives every result as soon as it is available.
            metadata: a JSON object that the commits of what it writes will carry, unless the text sets another.

        Raises:
            BadSyntax, PermissionDenied, Unsupported: nothing was done, if the text alone shows the error.
            FailedPrecondition: the text begins a block, and does not end it.
            LakewardenError: a statement failed; those before it have run, but for those of a block that it is in.
        """
        session = self.session(user=user, role=role)
        results = session.sql(text, freshness=freshness, wait=wait, files=files, each=each)
        if session.block.open:
            raise FailedPrecondition("the text ends inside a block, and nothing of the block was written: end it with COMMIT")
        return results

    def session(self, *, user: str, role: str = "user") -> SqlSession:
        """A session for one user in one role, through the gate. Its calls see and do what the role allows.

        Raises:
            InvalidArgument: the user's name is not valid, or the role does not exist.
        """
        from lakewarden.sql.session import open_session  # imports sqlglot: a third of a second, which other commands do not need

        return open_session(self._parts.services, user, role)

    def spark(self) -> SparkSession:
        """The Spark session of this warehouse's jobs, in which `format("lakewarden")` reads and writes its tables.

        Raises:
            Unsupported: Java is missing or too old.
            StorageUnavailable: Spark did not start.
        """
        from lakewarden.spark import register

        session = self._parts.cluster.session()
        register(session, self._parts.warehouse.uri, self._parts.warehouse.settings)
        return session


class SqlSessions(SqlCalls):
    """`lake.sessions`."""

    open = SqlCalls.session

    def served(self, principal: Principal, namespace: str | None = None, *, connected: bool = False) -> SqlSession:
        """A session of a request over a network: `namespace` is in use, and every bound holds, whoever it is.

        Args:
            connected: whether it lasts as long as a connection, and so has blocks.

        Raises:
            NotFound: there is no such namespace.
        """
        from lakewarden.sql.session import SqlSession  # as above

        if namespace is not None and namespace not in self._parts.warehouse.catalog.recent().namespaces:
            namespace_of(self._parts.warehouse.catalog.read(), namespace)
        return SqlSession(self.served_services, principal, namespace=namespace, refuses_blocks="" if connected else _ONE_REQUEST)

    @property
    def served_services(self) -> Services:
        """Those of requests over a network."""
        return replace(self._parts.services, served=True)


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
        from lakewarden.tables.changes.follower import Manner  # imports Delta

        session = SqlCalls(self._parts).session(user=user, role=role)
        return session.followed(text, Manner(from_seq, last_rows, batch_size, interval, timeout, pause))

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
