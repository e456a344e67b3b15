"""What lives: the processes that work on a warehouse for long, and the subscriptions that they follow.

Each has an object, which its process puts anew while it lives; so an operator sees them, and can end a subscription.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from lakewarden.base import VERSION
from lakewarden.base.clock import Clock, NewId, is_ahead
from lakewarden.catalog.heartbeat import BeatThread
from lakewarden.catalog.state.job import has_ended, this_node
from lakewarden.errors import NotFound, StorageRefused, StorageUnavailable
from lakewarden.storage.objects import AlreadyThere, Missing, ObjectStore
from lakewarden.storage.sums import kept_as

_ROOT = "processes"
BEAT_SECONDS = 30.0
"""How often a process says that it lives."""
_LEASE = timedelta(seconds=4 * BEAT_SECONDS)
"""One that has said nothing for so long is not shown."""
_KEPT = timedelta(days=7)
"""Its object goes only then: a machine may sleep, and clocks differ."""


@dataclass(frozen=True)
class ProcessNote:
    """What a process notes of itself."""

    node_id: str
    """`host:process id`, as jobs and sessions name it."""
    kind: str
    """`serve`, `ui`, `dagster run`, `spark driver` or `command`."""
    doing: str
    version: str
    since: datetime


@dataclass(frozen=True)
class WorkingProcess(ProcessNote):
    """A process, as of its last beat."""

    last_seen: datetime
    """By the store's time."""


class Beat(BeatThread):
    """Puts the object of this process, again and again."""

    def __init__(self, store: ObjectStore, key: str, content: bytes, after: float) -> None:
        super().__init__(f"beat {key}", self._put, BEAT_SECONDS, after)
        self._store = store
        self._key = key
        self._content = content
        self._noted = False

    def _put(self) -> bool:
        with suppress(StorageRefused):  # the next one may get through
            # A beat behind `rm -r` of the warehouse would make its directory again.
            if self._is_gone():
                return False
            self._store.put(self._key, self._content)
            self._noted = True
        return True

    def end(self) -> None:
        """Removes the object."""
        # First the thread: a beat that is under way would put the object again.
        super().end()
        if self._noted:
            with suppress(StorageUnavailable, StorageRefused):  # as of a process that died
                self._store.delete([self._key])

    def _is_gone(self) -> bool:
        """Whether the warehouse was removed, of which nothing is made anew."""
        try:
            return self._noted and not self._store.get(self._key)
        except Missing:
            return True


class Processes:
    """The processes of one warehouse; `store` is rooted at its `_lakewarden/`."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    @contextmanager
    def noted(self, kind: str, doing: str, *, clock: Clock, new_id: NewId, after: float = 0.0) -> Iterator[None]:
        """Notes this process inside the block; as `note`."""
        beat = self.note(kind, doing, clock=clock, new_id=new_id, after=after)
        try:
            yield
        finally:
            beat.end()

    def note(self, kind: str, doing: str, *, clock: Clock, new_id: NewId, after: float = 0.0) -> Beat:
        """Notes this process, from a thread of its own, until it or the beat ends.

        Args:
            after: seconds before the first time: what ends sooner requests nothing.
        """
        said = ProcessNote(this_node(), kind, doing, VERSION, clock())
        beat = Beat(self._store, f"{_ROOT}/{new_id()}", msgspec.json.encode(said), after)
        beat.start()
        return beat

    def alive(self, now: datetime) -> list[WorkingProcess]:
        """Returns those that beat within their lease, oldest first. One of this machine that has ended is not shown at all."""
        found = self._store.list(_ROOT)
        self._store.delete([each.key for each in found if each.modified < now - _KEPT])
        # By the store's time, which is the same for all processes (docs/decisions/0108-the-stores-time.md).
        there = (self._read(each.key, each.modified) for each in found if each.modified >= now - _LEASE)
        living = (each for each in there if each is not None and not has_ended(each.node_id))
        return sorted(living, key=lambda each: each.since)

    def _read(self, key: str, modified: datetime) -> WorkingProcess | None:
        try:
            said = kept_as(ProcessNote, self._store.get(key), f"{key} is not the note of a process")
            return WorkingProcess(**vars(said), last_seen=modified)
        except Missing:
            return None  # it ended meanwhile


# Subscriptions: an object each, so that an operator can see them and end one.

_LIVE = "live"
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
        self._store.put(_key(query.log_id, query.live_id, "query"), msgspec.json.encode(query))

    def end(self, query: LiveQuery) -> None:
        """Removes the subscription."""
        self._store.delete([_key(query.log_id, query.live_id, kind) for kind in ("query", "killed")])

    def killed(self, log_id: str) -> frozenset[str]:
        """Returns the ids of subscriptions to a table that have to end."""
        keys = (found.key for found in self._store.list(f"{_LIVE}/{log_id}"))
        return frozenset(key.rsplit("/", 1)[1].removesuffix(".killed") for key in keys if key.endswith(".killed"))

    def there(self, now: datetime) -> list[LiveQuery]:
        """Returns the subscriptions that have reported recently, oldest first, and removes the others."""
        there = list[LiveQuery]()
        for query, modified in self._all(_LIVE):
            # A subscriber's clock that is wrong would keep it here for as long after it died; the store's is not.
            last = modified if is_ahead(query.last_ping_at, now) else query.last_ping_at
            if last < now - _LOST:
                self.end(query)
            else:
                there.append(query)
        return sorted(there, key=lambda query: query.created_at)

    def kill(self, live_id: str) -> LiveQuery:
        """Makes a subscription end at its next poll.

        Raises:
            NotFound: the subscription does not exist.
        """
        query = next((query for query, _ in self._all(_LIVE) if query.live_id == live_id), None)
        if query is None:
            raise NotFound(f"there is no live query {live_id!r}; system.live lists the current ones")
        with suppress(AlreadyThere):  # by another process
            # Beside the subscription, whose own object its process overwrites with each report.
            self._store.create(_key(query.log_id, live_id, "killed"), b"")
        return query

    def forget(self, log_id: str, user: str) -> None:
        """Removes the records of a user's subscriptions to a table."""
        for query in [query for query, _ in self._all(f"{_LIVE}/{log_id}") if query.user == user]:
            self.end(query)

    def _all(self, prefix: str) -> Iterator[tuple[LiveQuery, datetime]]:
        """Each subscription, and when the store was last written for it."""
        for found in self._store.list(prefix):
            if found.key.endswith(".query"):
                with suppress(Missing):  # it ended meanwhile
                    data = self._store.get(found.key)
                    yield kept_as(LiveQuery, data, f"{found.key} is not a record of a subscription"), found.modified


def _key(log_id: str, live_id: str, kind: str) -> str:
    return f"{_LIVE}/{log_id}/{live_id}.{kind}"
