"""A restore's trace in the log: it changes rows that subscribers have seen, and appends none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lakewarden.clock import NewId
from lakewarden.log.advance import advance
from lakewarden.log.cut import Cut
from lakewarden.log.place import Mark, Placing, Segment
from lakewarden.log.segment import pack_segment
from lakewarden.storage.objects import ObjectStore

_REMEMBERED = 1000
"""Earlier restores of users that a cut names. Who comes back to one that was forgotten has to subscribe anew."""


def take_position(store: ObjectStore, log_id: str, mark: Mark, new_id: NewId) -> int:
    """Appends a segment without rows; its position.

    Raises:
        NotFound: the table was dropped.
        StorageUnavailable: the store failed.
    """
    put_id = new_id()
    return Placing(store, log_id, mark).place(Segment(put_id, pack_segment(put_id, 1, 0, ()), frozenset()))


def note_rewound(store: ObjectStore, log_id: str, marks: Sequence[str], position: int) -> None:
    """Notes that the rows of users (by keyed hash) were set back before this position was taken.

    Raises:
        Conflict, StorageUnavailable: try again.
    """

    def noted(cut: Cut) -> Cut | None:
        if cut.sealed or all(cut.rewound.get(mark, -1) >= position for mark in marks):
            return None
        earlier = {mark: at for mark, at in cut.rewound.items() if mark not in marks}
        return replace(cut, rewound=dict(list(earlier.items())[-_REMEMBERED:]) | dict.fromkeys(marks, position))

    advance(store, log_id, noted)
