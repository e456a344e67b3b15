"""Floors: what was settled of a table, stored where a loss of the log or of the tables does not reach it.

Each table has a floor on every storage with scopes of it, under `.lakewarden-floor/<table id>/`, and one in the warehouse's
state, under `known/<table id>/`. A floor is a set of objects that are never changed: each has, in its name, a position
up to which the log existed when scopes were settled, and holds what was known of those scopes. A job adds one before
it settles the log. Now and then it takes in the small ones, which bounds their number: notes can be joined
in any order, so a late or repeated merge does no harm. On an object store it takes in what the process has at hand
each time; what was taken in is read no more, and goes later.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, reduce
from itertools import accumulate, chain
from typing import TypeVar

from lakewarden.base.attempts import Attempts
from lakewarden.base.clock import NewId, random_id
from lakewarden.base.scope import NOTHING
from lakewarden.catalog.state.floor_entries import FloorLocation, KnownScopes, KnownState
from lakewarden.catalog.state.floor_objects import (
    BlockCache,
    FloorHead,
    FloorPart,
    encoded,
    highest,
    is_part,
    position_in,
    read_block,
    read_head,
    read_part,
)
from lakewarden.errors import Corrupt
from lakewarden.storage.location import local_path
from lakewarden.storage.objects import Missing, ObjectStore
from lakewarden.storage.open import open_store

RECENT_SECONDS = 60.0
"""Seconds for which a read is reused for comparisons: what is known only grows, so an older read finds less, not wrong."""

_JOINED = 4
"""The number of small objects that are worth merging, where they have to be read for it."""

_AT_HAND = 64 << 10
"""Bytes of objects that this process has read or made anyway, up to which the next one takes them in."""

_SPENT = 32
"""Objects whose notes others have too that are removed at once, on an object store, where that is a request."""

_ABSORBED = 512
"""Names of absorbed objects that an object lists, in half of its head: those of so many jobs (`summaries`)."""

_SMALL = 1 << 20
"""Bytes up to which an object is read whole, whichever scope of it is looked up."""

T = TypeVar("T")


@dataclass(frozen=True)
class FloorLook:
    """A floor as of one read: the notes of all its objects."""

    position: int = NOTHING
    """The highest position that was settled; `NOTHING` when nothing is known."""
    storages: Mapping[str, int] = field(default_factory=dict)
    """By storage id, the highest position seen in the floor on that storage. Only in the state's floor."""
    parts: tuple[KnownScopes, ...] = ()

    def known(self, mark: str) -> KnownState | None:
        """Returns what is known of the scope with this keyed hash."""
        found = [known for part in self.parts if (known := part.get(mark)) is not None]
        return reduce(KnownState.joined, found) if found else None

    unreadable: tuple[str, ...] = ()
    """Names of objects that cannot be read; only `Floor.examine` skips them."""

    def all(self) -> KnownScopes:
        return KnownScopes.union(self.parts)


@dataclass(frozen=True)
class FloorScan:
    """A floor as of one listing, by the heads of its objects."""

    heads: Mapping[str, FloorHead]
    """By key."""
    others: tuple[str, ...]
    """Keys of what else is kept beside it (`catalog.state.floor_summaries`)."""

    @property
    def position(self) -> int:
        return max(map(position_in, self.heads), default=NOTHING)

    @property
    def names(self) -> frozenset[str]:
        """Returns the objects' names, without the prefix of their keys."""
        return frozenset(key.rpartition("/")[2] for key in self.heads)


class Floor:
    """One copy of one table's floor. Objects are read once. Safe for threads."""

    def __init__(self, store: ObjectStore, prefix: str, new_id: NewId = random_id) -> None:
        self._store = store
        self._prefix = prefix
        self._new_id = new_id
        self._parts: dict[str, FloorPart] = {}
        self._heads: dict[str, FloorHead] = {}
        self._sizes: dict[str, int] = {}
        """Returns the bytes of the objects in the last listing, and of those added since."""
        self._others: tuple[str, ...] = ()
        self._looked: tuple[float, FloorLook] | None = None
        self._listed: float | None = None
        """When `known` listed the objects last."""
        self._blocks = BlockCache()
        self._remote = local_path(store.uri) is None
        self._lock = threading.Lock()

    @property
    def seen(self) -> int:
        """Returns the highest position in the last listing, or added since."""
        return max(map(position_in, self._sizes), default=NOTHING)

    def position(self) -> int:
        """Returns the highest position that was settled, by one listing; `NOTHING` when nothing is known."""
        with self._lock:
            self._list()
            return self.seen

    def look(self, within: float = 0.0, monotonic: Callable[[], float] = time.monotonic) -> FloorLook:
        """Returns the floor now, or as this process read it at most `within` seconds ago.

        Raises:
            Corrupt: an object cannot be read.
        """
        now = monotonic()
        with self._lock:
            recent = self._recent(now, within)
            if recent is None:
                recent = self._read()
                self._looked = (now, recent)
            return recent

    def known(
        self, marks: Collection[str], within: float = 0.0, monotonic: Callable[[], float] = time.monotonic
    ) -> dict[str, KnownState]:
        """Returns what `look` would know of these scopes; of large objects it reads only the blocks that may have them.

        Raises:
            Corrupt: what has to be read of an object cannot be.
        """
        now = monotonic()
        with self._lock:
            look = self._recent(now, within)
            if look is None:
                parts = self._lately(now, within, lambda key: self._some(key, marks))
                self._parts = {key: part for key, part in self._parts.items() if key in parts}
                look = FloorLook(parts=tuple(chain.from_iterable(parts.values())))
                if len(self._parts) == len(parts):  # all were read whole, as `look` does
                    self._looked = (self._listed or now, _joined(self._parts))
        return {mark: known for mark in marks if (known := look.known(mark)) is not None}

    def _some(self, key: str, marks: Collection[str]) -> list[KnownScopes]:
        """The notes of an object among which are those of the scopes."""
        if key not in self._parts:
            head = self._head(key) if self._sizes[key] > _SMALL else FloorHead()
            numbers = [] if head.blocks is None else head.blocks.numbers(marks)
            # For a few scopes of a large floor; where half of the blocks are needed, one read of all is cheaper.
            if head.blocks is not None and 2 * len(numbers) <= len(head.blocks):
                self._heads[key] = head
                return self._blocks.of(key, numbers, lambda number: read_block(self._store, key, head, number))
            self._parts[key] = self._part(key)
        return [self._parts[key].scopes]

    def storages(self, within: float = 0.0, monotonic: Callable[[], float] = time.monotonic) -> Mapping[str, int]:
        """Returns the positions that were seen on storages (`FloorLook.storages`) without reading notes. Raises as `look`."""
        now = monotonic()
        with self._lock:
            recent = self._recent(now, within)
            if recent is not None:
                return recent.storages
            self._heads = self._lately(now, within, self._head)
            return highest(head.storages for head in self._heads.values())

    def _recent(self, now: float, within: float) -> FloorLook | None:
        return None if self._looked is None or not within or now - self._looked[0] > within else self._looked[1]

    def scan(self) -> FloorScan:
        """Returns the heads of the floor's objects now.

        Raises:
            Corrupt: an object cannot be read.
        """
        with self._lock:
            self._heads = self._every(self._head)
            return FloorScan(dict(self._heads), self._others)

    def parts(self, keys: Iterable[str]) -> dict[str, KnownScopes]:
        """Returns the notes of these objects.

        Raises:
            Missing: one was merged into another since the listing.
            Corrupt: one cannot be read.
        """
        with self._lock:
            self._parts |= {key: self._part(key) for key in keys}
            return {key: self._parts[key].scopes for key in keys}

    def examine(self) -> FloorLook:
        """Returns what can be read of the floor, and what cannot. No position is missing: they are in the objects' names."""
        unreadable: set[str] = set()

        def read(key: str) -> FloorPart:
            try:
                return self._part(key)
            except Corrupt:
                unreadable.add(key)
                return FloorPart(KnownScopes.of({}), FloorHead())

        with self._lock:
            found = self._every(read)
        return replace(_joined(found), unreadable=tuple(key for key in found if key in unreadable))

    def mend(self, unreadable: Sequence[str], known: KnownScopes, storages: Mapping[str, int]) -> None:
        """Replaces the objects that cannot be read by one with these notes; durable when it returns."""
        with self._lock:
            # The names are whole where the notes are not: so no position is lost.
            last = max(map(position_in, unreadable))
            self._store.create(self._key(last), encoded(known, storages, ()))
            self._store.delete(unreadable)
            self._looked = self._listed = None

    def add(
        self, position: int, known: Mapping[str, KnownState] | KnownScopes, storages: Mapping[str, int] | None = None
    ) -> None:
        """Notes what is known of scopes (by keyed hash), and that the log existed up to the position; durable when it
        returns. Merges small objects of the last listing into the new one."""
        with self._lock:
            # Of the last listing, without a look: joining is a matter of tidiness, and never of what is known.
            try:
                absorbed = self._small()
                parts = [self._part(key) for key in absorbed]
            except Missing:  # another process has merged them
                absorbed, parts = [], []
            news = known if isinstance(known, KnownScopes) else KnownScopes.of(known)
            scopes = KnownScopes.union([news, *(part.scopes for part in parts)])
            head = FloorHead(highest([storages or {}, *(part.head.storages for part in parts)]), _names(absorbed, parts))
            # The name has the highest position of all that it takes in: with their objects, their positions go.
            last = max([position, *map(position_in, absorbed)])
            key = self._key(last)
            data = encoded(scopes, head.storages, head.absorbed)
            # First the new object, then the deletions: a crash in between leaves notes twice, which join to the same
            # (docs/decisions/0020-floors-and-identity.md).
            self._store.create(key, data)
            spent = self._spent().union(absorbed)
            if len(spent) >= (_SPENT if self._remote else 1):
                self._store.delete(sorted(spent))
                self._sizes = {other: size for other, size in self._sizes.items() if other not in spent}
            self._sizes[key] = len(data)
            self._parts = {other: part for other, part in self._parts.items() if other not in absorbed}
            self._parts[key] = FloorPart(scopes, head)
            if self._looked is not None:
                self._looked = (self._looked[0], _joined(self._parts))

    def remove(self) -> None:
        """Removes the whole floor, with its table."""
        with self._lock:
            self._store.delete([*self._list(), *self._others])
            self._parts, self._heads, self._sizes, self._looked, self._listed = {}, {}, {}, None, None

    def _read(self) -> FloorLook:
        self._parts = self._every(self._part)
        return _joined(self._parts)

    def _lately(self, now: float, within: float, read: Callable[[str], T]) -> dict[str, T]:
        """As `_every`, of the objects of a listing that is at most `within` seconds old."""
        old = self._listed is not None and within > 0 and now - self._listed <= within
        found = self._every(read, list(self._sizes) if old else None)
        self._listed = self._listed if old else now
        return found

    def _every(self, read: Callable[[str], T], keys: list[str] | None = None) -> dict[str, T]:
        """What is read of each object, except those whose notes another one has; of a listing before, if none of them is gone."""
        attempts = Attempts(20, f"{self._store.uri}/{self._prefix} changed", "while it was read")
        while attempts.next():
            try:
                return self._unspent(read, self._list() if keys is None else keys)
            except Missing:
                keys = None  # it was merged into another object since the listing

    def _unspent(self, read: Callable[[str], T], keys: Iterable[str]) -> dict[str, T]:
        """Raises `Missing`: one of the objects is gone."""
        found: dict[str, T] = {}
        # The newest first: it says of most of the others that it has their notes.
        for key in sorted(keys, reverse=True):
            if key not in (spent := self._spent()):
                found[key] = read(key)
        return {key: found[key] for key in sorted(found) if key not in spent}

    def _spent(self) -> set[str]:
        """The objects of the last listing whose notes another one of it has, as far as these were read."""
        known = [self._parts[key].head if key in self._parts else self._heads.get(key) for key in self._sizes]
        names = frozenset[str]().union(*(head.absorbed for head in known if head is not None))
        return {key for key in self._sizes if key.rpartition("/")[2] in names}

    def _key(self, last: int) -> str:
        """Returns a new name with that last position."""
        return f"{self._prefix}/{last + 1:020d}-{self._new_id()}"

    def _part(self, key: str) -> FloorPart:
        if key not in self._parts:
            self._parts[key] = read_part(self._store, key)
        return self._parts[key]

    def _head(self, key: str) -> FloorHead:
        if key in self._parts:
            return self._parts[key].head
        if key not in self._heads:
            self._heads[key] = read_head(self._store, key)
        return self._heads[key]

    def _small(self) -> list[str]:
        """Returns the objects to merge: the smallest, each no larger than those before it together, if there are enough; else
        those at hand. Raises `Missing`: one is gone."""
        spent = self._spent() if not self._remote else self._spent_by_newest()
        sizes = sorted((size, key) for key, size in self._sizes.items() if key not in spent)
        chosen: list[str] = []
        total = 0
        for size, key in sizes:
            # Smallest first, each no larger than those before it together: so a note is copied a logarithmic number of times.
            if chosen and size > total:
                break
            chosen.append(key)
            total += size
        if len(chosen) >= _JOINED or not self._remote:
            return chosen if len(chosen) >= _JOINED else []
        at_hand = [(size, key) for size, key in sizes if key in self._parts]
        totals = accumulate(size for size, _ in at_hand)
        return [key for (_, key), total in zip(at_hand, totals, strict=True) if total <= _AT_HAND]

    def _spent_by_newest(self) -> set[str]:
        """As `_spent`. Where too many are not known, as of a storage's copy, which is only listed, the newest are read: each says
        of those before it which it has taken in. Raises `Missing`: one is gone."""
        for key in sorted(self._sizes, reverse=True):
            strange = self._sizes.keys() - self._parts.keys() - self._spent()
            if len(strange) >= _JOINED and key in strange and self._sizes[key] <= _AT_HAND:
                self._part(key)
        return self._spent()

    def _list(self) -> list[str]:
        found = self._store.list(self._prefix)
        sizes = {stored.key: stored.size for stored in found if is_part(stored.key)}
        if sizes.keys() != self._sizes.keys():
            self._looked = None  # nothing is kept behind a newer listing
        self._sizes = sizes
        self._others = tuple(stored.key for stored in found if not is_part(stored.key))
        return list(self._sizes)


@lru_cache(maxsize=4096)
def floor_at(place: FloorLocation) -> Floor:
    """Returns one object per process, so that all callers share what was read."""
    return Floor(open_store(place.location), place.prefix)


def _joined(parts: Mapping[str, FloorPart]) -> FloorLook:
    return FloorLook(
        max(map(position_in, parts), default=NOTHING),
        highest(part.head.storages for part in parts.values()),
        tuple(part.scopes for part in parts.values()),
    )


def _names(absorbed: Iterable[str], parts: Iterable[FloorPart]) -> tuple[str, ...]:
    """Returns the names of all that was absorbed, those with the highest positions if there are too many."""
    names = {key.rpartition("/")[2] for key in absorbed}.union(*(part.head.absorbed for part in parts))
    # Names begin with the position, so these are the newest: the ones that others may still count on.
    return tuple(sorted(names)[-_ABSORBED:])
