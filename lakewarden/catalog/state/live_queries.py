"""Records the subscriptions of all processes: an object each, so that an operator can see them and end one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta

from lakewarden.errors import Corrupt, NotFound
from lakewarden.storage.objects import AlreadyThere, Missing, ObjectStore

ROOT = "live"
PING = timedelta(seconds=20)
"""How often a polled subscription reports itself."""
_LOST = timedelta(seconds=120)
"""A subscription that has not reported for this long is removed; one that is only slow reports at its next poll."""


@dataclass(frozen=True)
class LiveQuery:
    """A subscription, as of its last report."""

    live_id: str
    log_id: str
    table: str
    user: str
    """The user whose rows it shows; empty on a SHARED table."""
    query: str
    from_seq: int | None
    created_at: datetime
    last_ping_at: datetime
    changes: int = 0
    """The number of delivered events."""


class LiveQueries:
    """The subscriptions of one warehouse; `store` is rooted at its `_lakewarden/`."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def ping(self, query: LiveQuery) -> None:
        """Reports the subscription."""
        told = asdict(query) | {name: getattr(query, name).isoformat() for name in ("created_at", "last_ping_at")}
        self._store.put(_key(query.log_id, query.live_id, "query"), json.dumps(told, ensure_ascii=False).encode())

    def end(self, query: LiveQuery) -> None:
        """Removes the subscription."""
        self._store.delete([_key(query.log_id, query.live_id, kind) for kind in ("query", "killed")])

    def killed(self, log_id: str) -> frozenset[str]:
        """Returns the ids of subscriptions to a table that have to end."""
        keys = (found.key for found in self._store.list(f"{ROOT}/{log_id}"))
        return frozenset(key.rsplit("/", 1)[1].removesuffix(".killed") for key in keys if key.endswith(".killed"))

    def there(self, now: datetime) -> list[LiveQuery]:
        """Returns the subscriptions that have reported recently, oldest first, and removes the others."""
        found = list(self._all(ROOT))
        gone = [query for query in found if query.last_ping_at < now - _LOST]
        for query in gone:
            self.end(query)
        return sorted((query for query in found if query not in gone), key=lambda query: query.created_at)

    def kill(self, live_id: str) -> LiveQuery:
        """Makes a subscription end at its next poll.

        Raises:
            NotFound: the subscription does not exist.
        """
        query = next((query for query in self._all(ROOT) if query.live_id == live_id), None)
        if query is None:
            raise NotFound(f"there is no live query {live_id!r}; system.live lists the current ones")
        with suppress(AlreadyThere):  # by another process
            self._store.create(_key(query.log_id, live_id, "killed"), b"")
        return query

    def forget(self, log_id: str, user: str) -> None:
        """Removes the records of a user's subscriptions to a table."""
        for query in [query for query in self._all(f"{ROOT}/{log_id}") if query.user == user]:
            self.end(query)

    def _all(self, prefix: str) -> Iterator[LiveQuery]:
        for found in self._store.list(prefix):
            if found.key.endswith(".query"):
                try:
                    yield _decoded(found.key, self._store.get(found.key))
                except Missing:
                    continue  # it ended meanwhile


def _key(log_id: str, live_id: str, kind: str) -> str:
    return f"{ROOT}/{log_id}/{live_id}.{kind}"


def _decoded(key: str, data: bytes) -> LiveQuery:
    try:
        content = json.loads(data)
        moments = {name: datetime.fromisoformat(content[name]) for name in ("created_at", "last_ping_at")}
        return LiveQuery(**{**content, **moments})
    except (ValueError, KeyError, TypeError) as error:
        raise Corrupt(f"{key} is not a record of a subscription: {data[:80]!r}") from error
