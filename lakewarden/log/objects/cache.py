"""Caches headers and cuts. They never change, so a planner that reads the log again only reads what is new, and nothing of the
segments that this process put itself. And the last views of logs, which who looks up users begins from; and what a flush read."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from lakewarden.base.clock import Clock, system_clock
from lakewarden.base.recent import Recent
from lakewarden.log.chunk import RowRange
from lakewarden.log.objects.cut import LogCut
from lakewarden.log.objects.header import Header
from lakewarden.log.objects.log_view import LogView
from lakewarden.storage.objects import ObjectStore


class HeaderCache:
    """Headers by object name, bounded by the chunks that they describe; safe for threads.

    Only what was read, or put, under a cut that still counted afterwards is kept: a segment that came too late has the name of
    one that was there before.
    """

    def __init__(self, max_chunks: int = 500_000, max_own: int = 1024, max_notes: int = 1_000_000) -> None:
        self._headers: Recent[str, Header] = Recent(max_chunks)
        """Some 200 bytes each: 100 MB at the default; and as many in views, of which most are the same."""
        self._own: Recent[str, Header] = Recent(max_own)
        """Segments that a writer remembers for who reads the log in its process; one that only writes has few."""
        self._cuts: Recent[str, LogCut] = Recent(max_notes)
        """The last of each log, bounded by what they note, some 100 bytes each: a server comes by more logs than are in use."""
        self._views: Recent[str, LogView] = Recent(max_chunks)

    def header(self, key: str) -> Header | None:
        return self._headers.get(key) or self._own.get(key)

    def keep_own(self, header: Header) -> None:
        """Keeps that of a segment which was put here, and was not settled when the cuts were looked at afterwards."""
        self._own.put(header.key, header)

    def cut(self, log_id: str, version: int) -> LogCut | None:
        if version == 0:
            return LogCut()
        cut = self._cuts.get(log_id)
        # The number alone would not do: a pruned number is free again. It holds because the listing showed no newer cut
        # (docs/decisions/0038-what-a-flush-job-requests.md).
        return cut if cut is not None and cut.version == version else None

    def keep(self, log_id: str, cut: LogCut, headers: Iterable[Header]) -> None:
        if cut.version:
            self._cuts.put(log_id, cut, cut.weight)
        for header in headers:
            # A header that is there already is not weighed a second time.
            if self._headers.get(header.key) is not header:
                self._headers.put(header.key, header, header.weight)

    def view(self, log_id: str) -> LogView | None:
        return self._views.get(log_id)

    def keep_view(self, view: LogView) -> None:
        """Keeps the last view of a log, in place of the one before."""
        self._views.put(view.log_id, view, view.weight)


class ChunksInHand:
    """What flushes of this process read of logs, for the history that is made of it a moment later. Safe for threads."""

    def __init__(self, clock: Clock = system_clock) -> None:
        self._clock = clock
        self._chunks: Recent[tuple[str, RowRange], tuple[datetime, bytes]] = Recent(32 << 20, 16)

    def keep(self, store: ObjectStore, where: RowRange, data: bytes) -> None:
        self._chunks.put((store.uri, where), (self._clock(), data), len(data) + 500)  # with what it takes to keep them

    def take(self, store: ObjectStore, where: RowRange) -> bytes:
        """Returns the bytes of a chunk, once; none where it was not read within the last minute."""
        read_at, data = self._chunks.get((store.uri, where)) or (self._clock(), b"")
        self._chunks.forget((store.uri, where))
        # Who takes rows out of a log has to see that they are there, or one that was swept would have rows again. That happens
        # two days after its table was dropped, so a minute ago is as good as now
        # (docs/decisions/0151-keys-in-columns-and-chains-of-commits.md).
        return data if abs(self._clock() - read_at) < timedelta(minutes=1) else b""


IN_HAND = ChunksInHand()
"""Those of this process."""
