"""A subscription as callers use it: polled, or iterated."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType

from lakewarden.errors import LakewardenError, Terminal
from lakewarden.tables.changes.follower import Follower, Manner
from lakewarden.tables.changes.log_reader import Event


class Subscription:
    """The rows that a query returns, then each change to them, in the order of `_seq`, exactly once. For one thread.

    Iterating waits for events; `poll` does not. Use it as a context manager, or call `close`.
    """

    def __init__(self, follower: Follower, first: list[Event], manner: Manner) -> None:
        self._follower = follower
        self._told = follower.from_seq
        self._ready = first
        self._manner = manner
        self._ended: LakewardenError | None = None
        self._closed = False

    @property
    def id(self) -> str:
        """Its `live_id` in `system.live`."""
        return self._follower.live_id

    @property
    def seq(self) -> int | None:
        """The `from_seq` that continues after everything delivered; None until the initial rows were."""
        return self._told if self._ready else self._follower.delivered_seq

    def poll(self, max_age: float = 0.0) -> list[Event]:
        """Returns the events so far, without waiting; first the rows that exist.

        Args:
            max_age: seconds; a look at the log that another subscriber took no longer ago is enough.

        Raises:
            NotFound: the table was dropped.
            Ended: it was killed, or the table was restored; subscribe again.
            BeingErased: the user's rows are being erased.
            InvalidArgument: it was not polled for longer than the log is kept, or the query no longer fits the columns.
            PermissionDenied: the session may no longer read the table.
            StorageUnavailable, Conflict: poll again.
        """
        if self._ended is not None:
            raise self._ended
        found, self._ready = self._ready, []
        if self._closed:
            return found
        try:
            return [*found, *self._follower.next(max_age)]
        except LakewardenError as error:
            if found:
                return found  # the error is raised by the next call
            if isinstance(error, Terminal):
                self._ended = error
                self.close()
            raise

    def __iter__(self) -> Iterator[Event]:
        """Yields events as they come, until none came for `timeout` seconds; raises as `poll`."""
        idle = 0.0
        while not self._closed:
            found = self.poll(self._manner.interval)
            while found:
                event, *self._ready = found
                self._told = self._told if event.kind == "initial" else event.seq
                yield event
                found, self._ready = self._ready, []
                idle = 0.0
            if self._manner.timeout is not None and idle >= self._manner.timeout:
                return
            self._manner.pause(self._manner.interval)
            idle += self._manner.interval

    def close(self) -> None:
        """Ends the subscription; idempotent."""
        if not self._closed:
            self._closed = True
            self._follower.leave()

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
