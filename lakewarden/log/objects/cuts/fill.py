"""Fills the few positions beyond the last one (`put.PROBES`): a writer may sleep behind its look at an older cut."""

from __future__ import annotations

from contextlib import suppress

from lakewarden.base.clock import NewId
from lakewarden.log.objects import names
from lakewarden.log.objects.cut import newest_cut
from lakewarden.log.objects.links import Links
from lakewarden.log.objects.pack import pack_segment
from lakewarden.log.objects.put import PROBES
from lakewarden.storage.objects import AlreadyThere, ObjectStore


def fill(store: ObjectStore, log_id: str, new_id: NewId, segment_format: int) -> int:
    """Takes every position that a writer could take who has not seen the newest cut; returns the last one.

    Nothing that others appended is passed over: what they put there first, they had begun before that cut.
    """
    # First the segments, then the cut: what is settled and removed behind the listing, the cut knows.
    found = names.listing_of(log_id, store.keys(names.segments(log_id)))
    cut = newest_cut(store, log_id)
    taken = max(found.last_position, cut.last_taken)
    links = Links(store, log_id, None, segment_format)
    for position in range(taken + 1, taken + PROBES + 1):
        put_id, after = new_id(), links.before(position, cut)
        # A position that a writer took meanwhile is as good as filled: a conditional creation decides, so no row is
        # overwritten.
        with suppress(AlreadyThere):
            # Without rows: a filled position has to be a segment, since a gap is taken for a loss
            # (docs/decisions/0018-links-and-lost-positions.md).
            data = pack_segment(put_id, 1, 0, (), after=after, segment_format=segment_format)
            store.create(names.segment_key(log_id, position), data)
            links.made(position, put_id, 0)
    return taken + PROBES
