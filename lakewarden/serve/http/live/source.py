"""A subscription as the server follows it: in threads, one call at a time, and until its token ends."""

from __future__ import annotations

import logging
import threading

from lakewarden.client import Lakehouse
from lakewarden.errors import StorageUnavailable
from lakewarden.serve.authority import Authority
from lakewarden.serve.http.live.messages import EventBatch
from lakewarden.serve.http.live.query import LiveRequest
from lakewarden.serve.tokens import AccessToken
from lakewarden.tables.subscriptions.subscription import Subscription

_LOG = logging.getLogger("lakewarden.serve")
_POLL_BYTES = 256 << 10
"""Bytes of the log that one look takes: what a client does not read yet stays in the log, not in memory."""

LOOK_SECONDS = 0.5
"""Between two looks at a log, for all subscribers of it."""


class LiveSource:
    """Opened by its constructor, which blocks as every call does. Safe for threads."""

    def __init__(self, lake: Lakehouse, authority: Authority, token: AccessToken, request: LiveRequest) -> None:
        session = lake.sessions.served(token.principal, request.namespace)
        self._subscription: Subscription = session.subscribe(request.sql, from_seq=request.from_seq, poll_bytes=_POLL_BYTES)
        self._authority = authority
        self._token = token
        self._lock = threading.Lock()
        self._batch: EventBatch | None = None

    def next(self) -> EventBatch:
        """What came since the last batch, which works no longer then.

        Raises:
            LakewardenError: as `Subscription.poll`.
        """
        with self._lock:
            events = self._subscription.poll(LOOK_SECONDS)
            self._end_batch()
            self._batch = EventBatch(events, self._subscription.seq)
            return self._batch

    def confirm(self) -> None:
        """Raises:
        Declined: the token has expired, or was revoked.
        """
        self._authority.confirm(self._token)

    def close(self) -> None:
        """Ends the subscription, after the call that runs."""
        with self._lock:
            self._end_batch()
            try:
                self._subscription.close()
            except StorageUnavailable as error:  # its record goes with time
                _LOG.warning("%s: %s", self._subscription.id, error.message)

    def _end_batch(self) -> None:
        if self._batch is not None:
            self._batch.close()
