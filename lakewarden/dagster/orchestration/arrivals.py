"""Looks through a pipeline's source in rounds: how much a tick lists is bounded, however many objects there are.

A tick goes on with the round from where the last one had come, and looks behind the greatest name that was seen, where new
names mostly are. Pure but for the listing: what was taken, the pipeline's ledger says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice

import msgspec

from lakewarden.storage.sources import SourceObject

LISTED_PER_TICK = 10_000
"""Objects that a tick lists, ten requests of an object store: a million uploads are one round of a hundred ticks."""

Listing = Callable[[str], Iterable[SourceObject]]
"""The objects behind a key, in the order of their keys; all of them behind the empty one."""


class Sums(msgspec.Struct, frozen=True):
    """Of objects: how many, their bytes, and when the newest was written, in seconds since 1970."""

    objects: int = 0
    bytes: int = 0
    newest: float = 0.0

    def with_all(self, found: Iterable[SourceObject]) -> Sums:
        sums = self
        for one in found:
            sums = Sums(sums.objects + 1, sums.bytes + one.size, max(sums.newest, one.modified.timestamp()))
        return sums


class Cursor(msgspec.Struct, frozen=True):
    """Where a sensor has come to."""

    after: str = ""
    """The last key of the round so far; empty at its begin."""
    greatest: str = ""
    """The greatest key that was seen."""
    so_far: Sums = Sums()
    """Of this round."""
    whole: Sums = Sums()
    """Of the last round that was completed."""
    reported: str = ""
    """Which new objects were reported last, so that they are reported once."""


def read_cursor(text: str | None) -> Cursor:
    """One that another release wrote, and this does not read, begins anew: a round costs little."""
    try:
        return msgspec.json.decode(text or "{}", type=Cursor)
    except msgspec.DecodeError:
        return Cursor()


def write_cursor(cursor: Cursor) -> str:
    return msgspec.json.encode(cursor).decode()


@dataclass(frozen=True)
class ArrivalsLook:
    """What a tick saw."""

    objects: tuple[SourceObject, ...]
    cursor: Cursor
    """For the next tick."""
    is_whole: bool
    """Whether a round was completed."""


def look(listing: Listing, cursor: Cursor, most: int = LISTED_PER_TICK) -> ArrivalsLook:
    """Lists at most so many objects: half of them next in the round, and half behind the greatest name."""
    share = most // 2
    next_ones = tuple(islice(listing(cursor.after), share))
    sums = cursor.so_far.with_all(next_ones)
    if len(next_ones) < share:
        greatest = max((cursor.greatest, *(one.key for one in next_ones)))
        return ArrivalsLook(next_ones, Cursor(greatest=greatest, whole=sums, reported=cursor.reported), is_whole=True)
    after = next_ones[-1].key
    ahead = tuple(islice(listing(cursor.greatest), share)) if cursor.greatest > after else ()
    greatest = max((cursor.greatest, after, *(one.key for one in ahead)))
    return ArrivalsLook((*next_ones, *ahead), Cursor(after, greatest, sums, cursor.whole, cursor.reported), is_whole=False)
