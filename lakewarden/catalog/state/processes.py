"""The processes that work on a warehouse for long: an object each, which its process puts anew while it lives."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from lakewarden.base import VERSION
from lakewarden.base.clock import Clock, NewId
from lakewarden.catalog.heartbeat import BeatThread
from lakewarden.catalog.state.job import has_ended, this_node
from lakewarden.errors import Corrupt, StorageRefused, StorageUnavailable
from lakewarden.storage.objects import Missing, ObjectStore

_ROOT = "processes"
BEAT_SECONDS = 30.0
"""How often a process says that it lives."""
_LEASE = timedelta(seconds=4 * BEAT_SECONDS)
"""One that has said nothing for so long is not shown."""
_KEPT = timedelta(days=7)
"""Its object goes only then: a machine may sleep, and clocks differ."""


@dataclass(frozen=True)
class WorkingProcess:
    """A process, as of its last beat."""

    node_id: str
    """`host:process id`, as jobs and sessions name it."""
    kind: str
    """`serve`, `ui`, `dagster run`, `spark driver` or `command`."""
    doing: str
    version: str
    since: datetime
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
            if self._is_gone():
                return False
            self._store.put(self._key, self._content)
            self._noted = True
        return True

    def end(self) -> None:
        """Removes the object."""
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
        said = {"node_id": this_node(), "kind": kind, "doing": doing, "version": VERSION, "since": clock().isoformat()}
        beat = Beat(self._store, f"{_ROOT}/{new_id()}", json.dumps(said).encode(), after)
        beat.start()
        return beat

    def alive(self, now: datetime) -> list[WorkingProcess]:
        """Returns those that beat within their lease, oldest first. One of this machine that has ended is not shown at all."""
        found = self._store.list(_ROOT)
        self._store.delete([each.key for each in found if each.modified < now - _KEPT])
        there = (self._read(each.key, each.modified) for each in found if each.modified >= now - _LEASE)
        living = (each for each in there if each is not None and not has_ended(each.node_id))
        return sorted(living, key=lambda each: each.since)

    def _read(self, key: str, modified: datetime) -> WorkingProcess | None:
        try:
            content = json.loads(self._store.get(key))
            since = datetime.fromisoformat(content.pop("since"))
            return WorkingProcess(**content, since=since, last_seen=modified)
        except Missing:
            return None  # it ended meanwhile
        except (ValueError, KeyError, TypeError) as error:
            raise Corrupt(f"{key} is not the note of a process") from error
