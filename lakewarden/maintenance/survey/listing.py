"""Finds the Delta tables of a place in one flat listing, each with the objects that are its own.

A listing comes in the order of keys, so what is in a directory comes together, and a table is whole where its directory ends. An
object belongs to the innermost table around it. Until that is known it waits: `Day=1/` comes before `_delta_log/`. So a walk
holds the objects of the tables that it is in, and of directories that may turn out to be tables; those of other directories are
dropped at once. `MOST_OBJECTS` bounds what all walks together hold.

The pages of a listing follow one another, so a large place is cut at its directories, into ranges of keys that are listed side by
side. Whether it is large shows in its first pages, and so does how many ranges are worth it: each costs up to one request more.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice, pairwise

from lakewarden.base.threads import Threads
from lakewarden.delta.examination.listing import TableListing
from lakewarden.delta.replay.log_objects import LOG
from lakewarden.errors import Unsupported
from lakewarden.storage.meter import PAGE
from lakewarden.storage.objects import ObjectStore
from lakewarden.storage.sources import ObjectSource, SourceObject

MOST_OBJECTS = 1_000_000
"""Objects of tables that wait in memory, some 250 bytes each. A table that has more than are free is not examined."""

_OWN = 20_000
"""Of these each walk has so many for itself."""

_UNKNOWN = 100_000
"""With so many waiting objects it is asked whether the directories around them are tables: one LIST each."""

_PRUNED = 4_096


@dataclass(frozen=True)
class FoundTable:
    """A table of the place, and the objects that are its own."""

    path: str
    """Relative to the place; empty for the place itself."""
    listing: TableListing
    """The objects of its log first."""
    etags: tuple[str, ...]
    """Those of the log's objects."""
    left_out: int = 0
    """How many objects it has, where they are more than are held in memory; then none is here."""
    refused: str = ""
    """Why no store could read its log under its name; empty for all but hostile names."""
    store: ObjectStore | None = None
    """Its directory, where that is open."""

    @property
    def log(self) -> Iterator[tuple[str, str]]:
        """Keys and ETags of its log's objects."""
        return zip(self.listing.keys, self.etags, strict=False)

    @property
    def data(self) -> Iterator[tuple[str, int]]:
        """Keys and sizes of all others."""
        start = len(self.etags)
        return zip(self.listing.keys[start:], self.listing.sizes[start:], strict=True)


class Room:
    """How many objects may wait in memory. Safe for threads."""

    def __init__(self, most: int = MOST_OBJECTS) -> None:
        self._free = most
        self._lock = threading.Lock()

    def take(self, count: int) -> bool:
        """Whether there was room for them."""
        with self._lock:
            fits = count <= self._free
            self._free -= count if fits else 0
            return fits

    def free(self, count: int) -> None:
        with self._lock:
            self._free += count


@dataclass(slots=True)
class _Directory:
    """A directory that the walk is in. `prefix` ends with a slash, but for the place itself, where it is empty."""

    prefix: str
    start: int
    """Where its files begin among those that wait."""
    log: list[SourceObject] = field(default_factory=list)
    is_table: bool | None = None
    """None: not known."""
    left_out: int = 0


class Walk:
    """Takes the objects of a listing in their order, and hands on each table when its directory has ended.

    Args:
        source: asked whether a directory is a table where very many objects wait for that.
        take: called with each table. It returns when the table's objects need no more memory.
        plain: whether the place itself is known to be no table.
    """

    def __init__(self, source: ObjectSource, take: Callable[[FoundTable], None], room: Room, *, plain: bool = False) -> None:
        self._source = source
        self._take = take
        self._room = room
        self._taken = 0
        self._waiting: list[tuple[str, int, datetime]] = []
        self._logs = 0
        self._stack = [_Directory("", 0, is_table=False if plain else None)]
        self.last = ""
        """The last key."""
        self.objects = 0
        """How many it has taken."""

    @property
    def is_flat(self) -> bool:
        """Whether the last object was directly in the place."""
        return len(self._stack) == 1

    def add(self, found: SourceObject) -> None:
        """Raises Unsupported: the store lists in another order than that of keys."""
        self.objects += 1
        key, top = found.key, self._stack[-1]
        if not key.startswith(top.prefix):
            self._check_order(key)
            top = self._leave(key)
        self.last, at = key, len(top.prefix)
        while (slash := key.find("/", at)) >= 0:
            if key[at:slash] == LOG:
                top.is_table = True
                self._logs += 1
                top.log.append(found)
                self._bounded(key)
                return
            top = self._enter(key[: slash + 1])
            at = slash + 1
        if at < len(key) and key[at:] != LOG:  # what is named as a directory marks it: some tools write such objects
            self._waiting.append((key, found.size, found.modified))
            self._bounded(key)

    def end(self) -> None:
        """Hands on the tables that the last object was in."""
        while self._stack:
            self._close(self._stack.pop())

    def _check_order(self, key: str) -> None:
        """Some stores sort by parts of keys, which keeps directories together, too."""
        if key < self.last and key.split("/") < self.last.split("/"):
            raise Unsupported(f"{self._source.uri} is not listed in the order of its keys: {key!r} comes behind {self.last!r}")

    def _enter(self, prefix: str) -> _Directory:
        if self._waiting and self._waiting[-1][:2] == (prefix[:-1], 0):
            self._waiting.pop()  # a mark of this directory
        made = _Directory(prefix, len(self._waiting))
        self._stack.append(made)
        return made

    def _leave(self, key: str) -> _Directory:
        while not key.startswith(self._stack[-1].prefix):
            self._close(self._stack.pop())
        return self._stack[-1]

    def _close(self, ended: _Directory) -> None:
        if not ended.log and not ended.left_out:
            return  # its files are those of the next table around it
        if ended.left_out:
            self._leave_out(ended)
        path, log, files = ended.prefix.rstrip("/"), ended.log, self._waiting[ended.start :]
        cut = len(ended.prefix)
        listing = TableListing(
            [*(each.key[cut:] for each in log), *(key[cut:] for key, _, _ in files)],
            [*(each.size for each in log), *(size for _, size, _ in files)],
            [*(each.modified for each in log), *(modified for _, _, modified in files)],
        )
        del self._waiting[ended.start :]
        self._logs -= len(log)
        refused = next((each.refused for each in log if each.refused), "")
        self._take(FoundTable(path, listing, tuple(each.etag for each in log), ended.left_out, refused))
        self._give_back()

    def _bounded(self, key: str) -> None:
        """Keeps what waits within its bounds."""
        held = len(self._waiting) + self._logs
        if held % _PRUNED == 0:
            self._prune(key)
            if len(self._waiting) >= _UNKNOWN:
                self._ask()
                self._prune(key)
            held = len(self._waiting) + self._logs
            if held > _OWN + self._taken:
                self._grow(held)

    def _prune(self, key: str) -> None:
        """Drops the files around which there is no table. Behind where its log would be, a directory is known to be none."""
        start = len(self._waiting)
        for directory in self._stack:
            if directory.is_table is None and _is_past(key[len(directory.prefix) :]):
                directory.is_table = False
            if directory.is_table is not False:
                start = directory.start
                break
        if start:
            del self._waiting[:start]
            for directory in self._stack:
                directory.start = max(0, directory.start - start)

    def _ask(self) -> None:
        for directory in self._stack:
            if directory.is_table is None:
                log = f"{directory.prefix}{LOG}"
                directory.is_table = next(iter(self._source.uploads(below=log)), None) is not None

    def _grow(self, held: int) -> None:
        more = held - _OWN - self._taken
        if self._room.take(more):
            self._taken += more
            return
        self._ask()
        around = [directory for directory in self._stack if directory.is_table]
        if around:
            self._leave_out(around[-1])
        self._give_back()

    def _leave_out(self, table: _Directory) -> None:
        table.left_out += len(self._waiting) - table.start + len(table.log)
        self._logs -= len(table.log)
        table.log.clear()
        del self._waiting[table.start :]
        for directory in self._stack:
            directory.start = min(directory.start, table.start)

    def _give_back(self) -> None:
        spare = self._taken - max(0, len(self._waiting) + self._logs - _OWN)
        if spare > 0:
            self._room.free(spare)
            self._taken -= spare


def _is_past(rest: str) -> bool:
    """Whether no key of a log comes behind this one in its directory, by letters or by parts of keys."""
    return rest > LOG and not rest.startswith(LOG)


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
