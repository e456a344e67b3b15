"""The write logs of a warehouse: one object per log in a process, shared by all callers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from weakref import WeakValueDictionary

from lakewarden.base.recent import Recent
from lakewarden.log.objects.cache import HeaderCache
from lakewarden.log.objects.cuts import writers
from lakewarden.log.objects.cuts.closing import remove_seal
from lakewarden.log.objects.log_view import LogViews
from lakewarden.log.objects.view import read_views
from lakewarden.log.table_log import LogTerms, TableLog
from lakewarden.storage.objects import ObjectStore

_KEPT = 256
"""The most recently used logs stay open although no caller holds them: each knows the end of its log without a listing."""


class Logs:
    """Safe for threads. `store` is rooted at the warehouse's `_lakewarden/`."""

    def __init__(self, store: ObjectStore, kept: int = _KEPT) -> None:
        self._store = store
        self._headers = HeaderCache()
        # A caller's log must stay the same object also after it left the recent ones.
        self._open: WeakValueDictionary[str, TableLog] = WeakValueDictionary()
        self._recent: Recent[str, TableLog] = Recent(kept)
        self._lock = threading.Lock()

    def of(self, log_id: str, terms: Callable[[], LogTerms]) -> TableLog:
        """Returns the log: one object as long as a caller holds it, and a while longer."""
        with self._lock:
            # One object for a log, whoever opens it: calls share segments only within one, and a new one has to list first
            # (docs/decisions/0024-one-log-object.md).
            log = self._open.get(log_id)
            if log is None:
                log = self._open[log_id] = TableLog(self._store, log_id, terms(), self._headers)
            self._recent.put(log_id, log)
            return log

    def opened(self, log_id: str) -> TableLog:
        """Returns a log that is already open. Raises `KeyError` when it is not."""
        return self._open[log_id]

    def views(self, users: Mapping[str, Collection[str]] | None = None) -> LogViews:
        """Reads every log that is not empty, by one listing. Leaves out the logs of dropped tables.

        Args:
            users: by log id, those who will be looked up; by default all of every log.

        For planning: rows that are settled while the listing runs may be missing from a log that looks empty.
        """
        found = read_views(self._store, self._headers, users)
        with self._lock:
            # A writer that remembers its position would put rows behind what was found to be lost.
            doubted = [log for log in self._open.values() if log.log_id in found.faults]
        for log in doubted:
            log.look_again()
        return found

    def remove(self, log_id: str, before: datetime) -> bool:
        """Removes what is left of a dropped table's log; returns whether it is gone. A log written to since then has to wait."""
        return remove_seal(self._store, log_id, before)


def doubt_writers(store: ObjectStore, log_id: str) -> None:
    """For a task, makes the last batches of all writers uncertain, since rows are lost that had left the log. Idempotent.

    Raises:
        Conflict, StorageUnavailable: try again.
    """
    writers.doubt(store, log_id)
