"""Notes a restore in the log: it changes rows that subscribers have seen, but appends no rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lakewarden.base.clock import NewId
from lakewarden.log.objects.cut import EVERYBODY, LogCut
from lakewarden.log.objects.cuts.advance import advance
from lakewarden.log.objects.put import Puts, Segment, WriterTerms
from lakewarden.log.objects.segments.pack import INDEXED
from lakewarden.log.table_log import Mark
from lakewarden.storage.objects import ObjectStore

_REMEMBERED = 1000
"""Earlier restores of users that a cut names. Who comes back to one that was forgotten has to subscribe anew."""


def take_position(store: ObjectStore, log_id: str, mark: Mark, new_id: NewId, *, segment_format: int = INDEXED) -> int:
    """Appends a segment without rows; its position.

    Raises:
        NotFound: the table was dropped.
        StorageUnavailable: the store failed.
    """
    return Puts(store, log_id, mark, WriterTerms(segment_format)).put(Segment.of(new_id(), 1, 0, ()))


def note_rewound(store: ObjectStore, log_id: str, marks: Sequence[str], position: int) -> None:
    """Notes that the rows of users (by keyed hash) were set back before this position was taken.

    Raises:
        Conflict, StorageUnavailable: try again.
    """

    def noted(cut: LogCut) -> LogCut | None:
        if cut.sealed or all(cut.rewound.get(mark, -1) >= position for mark in marks):
            return None
        everybody = {mark: at for mark, at in cut.rewound.items() if mark == EVERYBODY}
        earlier = {mark: at for mark, at in cut.rewound.items() if mark not in (*marks, EVERYBODY)}
        return replace(cut, rewound=everybody | dict(list(earlier.items())[-_REMEMBERED:]) | dict.fromkeys(marks, position))

    advance(store, log_id, noted)
