"""Links: a segment's header names the put of the segment before, so that a reader notices a lost or replaced segment."""

from __future__ import annotations

from lakewarden.log.objects import names
from lakewarden.log.objects.cache import HeaderCache
from lakewarden.log.objects.cut import LogCut
from lakewarden.log.objects.header import UNKNOWN, link_to
from lakewarden.log.objects.pack import LINKED
from lakewarden.log.objects.segment import read_link
from lakewarden.storage.objects import Missing, ObjectStore


class Links:
    """The links for one writer's segments. A request is made only where neither the writer's own last put, nor the cut,
    nor the headers that this process has read tell."""

    def __init__(self, store: ObjectStore, log_id: str, headers: HeaderCache | None, segment_format: int) -> None:
        self._store = store
        self._log_id = log_id
        self._headers = headers or HeaderCache(0)
        self._format = segment_format
        self._own = (-1, UNKNOWN)
        """The position of the last put of this writer, and the link to it."""

    def before(self, position: int, cut: LogCut) -> str:
        """The link to the segment at the position before; zeros where that is unknown.

        `cut` may be old: what is at a position that was settled meanwhile may have come too late, and its id be wrong, but
        then no reader compares it (docs/decisions/0018-links-and-lost-positions.md).

        Raises:
            Corrupt: something is there that is not a segment.
            StorageUnavailable: the store failed.
        """
        previous = position - 1
        # Below the cut nothing is compared; and the segment behind a lost position follows one that cannot be read any more.
        if self._format < LINKED or previous < cut.upto or previous in cut.lost:
            return UNKNOWN
        if previous == self._own[0]:
            return self._own[1]
        # The segment itself may be removed by now. The cut remembers the put, but not its number of rows.
        if previous == cut.upto:
            return link_to(cut.last_put, None)
        return self._found(names.segment_key(self._log_id, previous))

    def made(self, position: int, put_id: str, rows: int) -> None:
        """Notes the writer's own put."""
        self._own = (position, link_to(put_id, rows))

    def _found(self, key: str) -> str:
        if header := self._headers.header(key):
            return header.link
        try:
            return read_link(self._store, key)
        except Missing:
            return UNKNOWN  # settled and removed meanwhile; or lost, which a gap tells
