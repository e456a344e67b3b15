"""Caches headers and cuts. They never change, so a planner that reads the log again only reads what is new, and nothing of the
segments that this process put itself. And the last views of logs, which who looks up users begins from."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable

from lakewarden.log.objects.cut import LogCut
from lakewarden.log.objects.header import Header
from lakewarden.log.objects.log_view import ListedLogView


class HeaderCache:
    """Headers by object name, bounded by the chunks that they describe; safe for threads.

    Only what was read, or put, under a cut that still counted afterwards is kept: a segment that came too late has the name of
    one that was there before.
    """

    def __init__(self, max_chunks: int = 500_000, max_own: int = 1024) -> None:
        self._max_chunks = max_chunks
        """Some 200 bytes each: 100 MB at the default; and as many in views, of which most are the same."""
        self._chunks = 0
        self._headers: OrderedDict[str, Header] = OrderedDict()
        self._max_own = max_own
        """Segments that a writer remembers for who reads the log in its process; one that only writes has few."""
        self._own: OrderedDict[str, Header] = OrderedDict()
        self._cuts: dict[str, LogCut] = {}
        self._views: OrderedDict[str, ListedLogView] = OrderedDict()
        self._viewed = 0
        self._lock = threading.Lock()

    def header(self, key: str) -> Header | None:
        return self._headers.get(key) or self._own.get(key)

    def keep_own(self, header: Header) -> None:
        """Keeps that of a segment which was put here, and was not settled when the cuts were looked at afterwards."""
        with self._lock:
            self._own[header.key] = header
            if len(self._own) > self._max_own:
                self._own.popitem(last=False)

    def cut(self, log_id: str, version: int) -> LogCut | None:
        if version == 0:
            return LogCut()
        cut = self._cuts.get(log_id)
        return cut if cut is not None and cut.version == version else None

    def keep(self, log_id: str, cut: LogCut, headers: Iterable[Header]) -> None:
        with self._lock:
            if cut.version:
                self._cuts[log_id] = cut
            for header in headers:
                if self._headers.get(header.key) is header:
                    self._headers.move_to_end(header.key)
                    continue
                if self._headers.pop(header.key, None) is None:
                    self._chunks += header.weight
                self._headers[header.key] = header
            while self._chunks > self._max_chunks and self._headers:
                _, dropped = self._headers.popitem(last=False)
                self._chunks -= dropped.weight

    def view(self, log_id: str) -> ListedLogView | None:
        return self._views.get(log_id)

    def keep_view(self, view: ListedLogView) -> None:
        """Keeps the last view of a log, in place of the one before."""
        with self._lock:
            former = self._views.pop(view.log_id, None)
            self._views[view.log_id] = view
            self._viewed += view.weight - (former.weight if former else 0)
            while self._viewed > self._max_chunks:
                _, dropped = self._views.popitem(last=False)
                self._viewed -= dropped.weight
