"""Notes the direct writes that are under way: their rows will have numbers of a position that the log has passed by then.

A write is noted before it takes its position, and forgotten when it is in the table, or will never be. So whoever reads how far
the log goes, then the newest cut, and then the table, finds in the table every row of the writes that the cut does not note.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from lakewarden.clock import HELD_AT_MOST, to_millis
from lakewarden.log.objects import names
from lakewarden.log.objects.cut import Cut
from lakewarden.log.objects.cuts.advance import advance
from lakewarden.storage.objects import ObjectStore

_OVER = 2 * HELD_AT_MOST
"""After so long a write cannot commit any more, however the clocks of two machines differ."""


def open_direct(store: ObjectStore, log_id: str, write_id: str, now: datetime) -> None:
    """Notes a write before it takes its position. Forgets those that are over.

    Raises:
        Conflict, StorageUnavailable: try again.
    """
    listed = names.listing_of(log_id, store.keys(names.segments(log_id))).last_position

    def noted(cut: Cut) -> Cut | None:
        if cut.sealed or write_id in cut.direct:
            return None
        going = {id_: entry for id_, entry in cut.direct.items() if not is_over(entry, now)}
        return replace(cut, direct=going | {write_id: (max(listed, cut.last_taken), to_millis(now))})

    advance(store, log_id, noted)


def close_direct(store: ObjectStore, log_id: str, write_id: str) -> None:
    """Forgets a write that is in the table, or never will be, and all its attempts (`<write_id>/…`). Idempotent; raises as
    `open_direct`."""

    def forgotten(cut: Cut) -> Cut | None:
        left = {id_: entry for id_, entry in cut.direct.items() if id_ != write_id and not id_.startswith(f"{write_id}/")}
        return None if len(left) == len(cut.direct) else replace(cut, direct=left)

    advance(store, log_id, forgotten)


def is_over(entry: tuple[int, int], now: datetime) -> bool:
    """Whether a noted write cannot be under way any more."""
    return entry[1] < to_millis(now - _OVER)


def resolved_upto(cut: Cut, now: datetime) -> int | None:
    """The last position up to which no direct write is under way; None when none is."""
    return min((entry[0] for entry in cut.direct.values() if not is_over(entry, now)), default=None)
