"""Reads the segments above a cut one after the other, each by name, and so finds lost ones.

A position is put only by who saw the one before taken. So above a cut that still counts, where a position is taken all of
those before it are: a listing that does not show one has missed it, or it is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from lakewarden.errors import Corrupt
from lakewarden.log.objects import names
from lakewarden.log.objects.cache import HeaderCache
from lakewarden.log.objects.cut import LogCut, newest_version
from lakewarden.log.objects.header import UNKNOWN, Header, same_put
from lakewarden.log.objects.names import LogListing
from lakewarden.log.objects.segment import read_put_id, read_segment
from lakewarden.storage.objects import Missing, ObjectStore


def read_run(
    store: ObjectStore, log_id: str, listing: LogListing, cut: LogCut, cache: HeaderCache, known: Sequence[Header] = ()
) -> tuple[Header, ...]:
    """The headers of all positions above the cut, behind the first ones, which are known. The log may have moved on: it counts if
    the cut is the newest afterwards.

    Raises:
        Missing: a position's segment is not there.
        Corrupt: it cannot be read.
    """
    headers = []
    # The cut may name lost positions behind the last segment; they have to be in the run, which has one header for each
    # position.
    for position in range(cut.upto + 1 + len(known), max(listing.last_position, cut.last_taken) + 1):
        key = names.segment_key(log_id, position)
        if position in cut.lost:
            headers.append(_given_up(store, key, position))
            continue
        # A segment that the listing misses is read from the store: what is remembered of it does not prove that it is still
        # there.
        cached = cache.header(key) if position in listing.segments else None
        headers.append(cached or read_segment(store, key, position))
    return tuple(headers)


def _given_up(store: ObjectStore, key: str, position: int) -> Header:
    """A lost position is empty, unless a writer who did not know took it before it was given up; or whole chunks are left."""
    try:
        header = read_segment(store, key, position)
        # What is left of a given-up segment is read as far as its objects go; a chunk that is cut off is what was reported as
        # lost.
        sizes = {each: _size(store, each) for each in {each.key for each in header.ranges}}
        return replace(header, chunks=tuple(each for each in header.ranges if each.offset + each.length <= sizes[each.key]))
    except (Missing, Corrupt):
        return Header(key, UNKNOWN, ())


def _size(store: ObjectStore, key: str) -> int:
    try:
        return len(store.get(key))
    except Missing:
        return 0


def unlinked(cut: LogCut, run: Sequence[Header], first: int) -> int | None:
    """The first position whose segment is not the one that the segment behind it follows; the run begins at `first`.

    The first segment above the cut is compared with nothing: what is settled was read.
    """
    for position, (one, other) in enumerate(pairwise(run), first):
        # A lost position may hold what a late writer put there: the segment behind it follows the one that was lost.
        if position not in cut.lost and not same_put(one.put_id, other.after):
            return position
    return None


def check_whole(store: ObjectStore, log_id: str, listing: LogListing, cut: LogCut) -> None:
    """For a writer, who has listed the segments and read the cut after that.

    Raises:
        Corrupt: a position is lost.
    """
    # Up to the last one that was listed, which is there. A listing may miss a segment, so each gap is looked at by name.
    for position in range(cut.upto + 1, listing.last_position):
        if position in listing.segments or position in cut.lost:
            continue
        try:
            read_put_id(store, names.segment_key(log_id, position))
        except Missing as gone:
            # With a newer cut the segment may have been settled and removed since: the append's own look decides then.
            if newest_version(store, log_id) == cut.version:
                raise lost(store, log_id, position) from gone
            return


def lost(store: ObjectStore, log_id: str, position: int) -> Corrupt:
    return Corrupt(
        f"position {position} of log {log_id} in {store.uri} is lost: its segment is missing, and later ones are there."
        " `lakewarden repair` says what is lost, and goes on from there"
    )


def replaced(store: ObjectStore, log_id: str, position: int) -> Corrupt:
    return Corrupt(
        f"position {position} of log {log_id} in {store.uri} holds another segment than the one that was there when the next was"
        " written: that one is lost. `lakewarden repair` says what is lost, and goes on from there"
    )
