"""Lists a place by several listings side by side, each of a range of its keys.

The pages of a listing follow one another, so a large place is cut at its directories. Whether it is large shows in its first
pages, and so does how many ranges are worth it: each costs up to one request more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice, pairwise

from lakewarden.base.threads import Threads
from lakewarden.delta.replay.log_objects import LOG
from lakewarden.maintenance.survey.listing import FoundTable, Room, Walk
from lakewarden.storage.meter import PAGE
from lakewarden.storage.sources import ObjectSource, SourceObject

SIDE_BY_SIDE = 16
"""Listings at once."""

_FIRST_PAGES = 64
"""Of a place that is not cut."""

_DEEPER = 2
"""Levels of directories that are looked into where there are few above: with the first one that costs at most nine requests."""

_FEW = 4

_PAGES_EACH = 64
"""Of one range: so all ranges together cost at most a sixty-fourth more."""


def list_tables(source: ObjectSource, take: Callable[[FoundTable], None]) -> int:
    """Calls `take` with each table of the place, from several threads. Returns how many objects the place has.

    Raises:
        StorageUnavailable, StorageRefused: it can't be listed.
        Unsupported: its store lists in another order than that of keys.
    """
    room, objects = Room(), source.uploads()
    walk = Walk(source, take, room)
    for found in islice(objects, _FIRST_PAGES * PAGE):
        walk.add(found)
    cuts = _cuts(source, walk.last) if walk.objects == _FIRST_PAGES * PAGE and not walk.is_flat else []
    if not cuts:
        return _to_its_end(walk, objects)
    with Threads(len(cuts)) as threads:
        ranges = [threads.submit(_range, source, begin, end, take, room) for begin, end in pairwise([*cuts, ""])]
        return _to_its_end(walk, _until(objects, cuts[0])) + sum(each.result() for each in ranges)


def _to_its_end(walk: Walk, objects: Iterator[SourceObject]) -> int:
    for found in objects:
        walk.add(found)
    walk.end()
    return walk.objects


def _range(source: ObjectSource, begin: str, end: str, take: Callable[[FoundTable], None], room: Room) -> int:
    walk = Walk(source, take, room, plain=True)
    objects = (found for found in source.uploads(begin) if found.key >= begin)  # clients drop the slash behind which it begins
    return _to_its_end(walk, _until(objects, end))


def _until(objects: Iterator[SourceObject], end: str) -> Iterator[SourceObject]:
    for found in objects:
        if end and found.key >= end:
            return
        yield found


def _cuts(source: ObjectSource, last: str) -> Sequence[str]:
    """The directories behind a key at which ranges begin. None of them is in a table."""
    newest = found = [*source.folders()]
    for _ in range(_DEEPER):
        if f"{LOG}/" in found or not 0 < len(newest) <= _FEW:
            break
        newest = [inner for folder in newest for inner in _inside(source, folder)]
        found = [*found, *newest]
    if f"{LOG}/" in found:
        return ()
    behind = sorted(folder for folder in found if folder > last)
    pages = len(behind) * _FIRST_PAGES / max(1, len(found) - len(behind))
    count = min(SIDE_BY_SIDE, int(pages / _PAGES_EACH), len(behind))
    return [behind[number * len(behind) // count] for number in range(count)] if count > 1 else ()


def _inside(source: ObjectSource, folder: str) -> Sequence[str]:
    found = source.folders(folder.rstrip("/"))
    return () if f"{folder}{LOG}/" in found else found
