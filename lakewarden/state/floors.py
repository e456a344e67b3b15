"""Floors: what was settled of a table, kept where a loss of the log, or of the tables, does not reach it.

Each table has a floor on every storage with scopes of it, under `.lakewarden-floor/<table id>/`, and one in the warehouse's
state, under `known/<table id>/`. A floor is a set of objects that are created and never changed: each has a position up to
which the log was there when scopes were settled, in its name, and what was known of those scopes then. A job adds one before
it settles the log. Now and then the small ones become one, which is what bounds how many there are: notes can be put together
in any order, so whoever does it late, or twice, does no harm.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, reduce

import pyarrow as pa

from lakewarden.clock import NewId, random_id
from lakewarden.errors import Conflict, Corrupt
from lakewarden.state.floor_entries import NOTHING, FloorPlace, Known, KnownScopes
from lakewarden.storage.objects import Missing, ObjectStore
from lakewarden.storage.open import open_store

RECENT_SECONDS = 60.0
"""How old a look may be for comparing with it: what is known only grows, so an older one finds less, and nothing wrong."""

_JOINED = 4
"""Small objects that are worth becoming one."""

_ATTEMPTS = 20
_STORAGES = b"storages"


@dataclass(frozen=True)
class _Part:
    """One object: what it knows, and the positions that its maker saw on storages."""

    scopes: KnownScopes
    storages: Mapping[str, int]


@dataclass(frozen=True)
class FloorLook:
    """A floor as of one look: all that its objects know."""

    position: int = NOTHING
    """The highest position that was settled; `NOTHING` where nothing is known."""
    storages: Mapping[str, int] = field(default_factory=dict)
    """By id, the highest position that the floor on a storage was seen to have. Only in the state's floor."""
    parts: tuple[KnownScopes, ...] = ()

    def known(self, mark: str) -> Known | None:
        """What is known of the scope with this keyed hash."""
        found = [known for part in self.parts if (known := part.get(mark)) is not None]
        return reduce(Known.joined, found) if found else None

    unreadable: tuple[str, ...] = ()
    """Names of objects that cannot be read; only `Floor.examine` passes them over."""

    def all(self) -> KnownScopes:
        return KnownScopes.union(self.parts)


class Floor:
    """One copy of one table's floor. Objects are read once. Safe for threads."""

    def __init__(self, store: ObjectStore, prefix: str, new_id: NewId = random_id) -> None:
        self._store = store
        self._prefix = prefix
        self._new_id = new_id
        self._parts: dict[str, _Part] = {}
        self._sizes: dict[str, int] = {}
        """Bytes of the objects that the last listing showed, and of those that were added since."""
        self._looked: tuple[float, FloorLook] | None = None
        self._lock = threading.Lock()

    @property
    def seen(self) -> int:
        """The highest position that the last listing showed, or that was added since."""
        return max(map(_position, self._sizes), default=NOTHING)

    def position(self) -> int:
        """The highest position that was settled, by one listing; `NOTHING` where nothing is known."""
        with self._lock:
            self._list()
            return self.seen

    def look(self, within: float = 0.0, monotonic: Callable[[], float] = time.monotonic) -> FloorLook:
        """The floor now, or as this process saw it at most so many seconds ago.

        Raises:
            Corrupt: an object cannot be read.
        """
        now = monotonic()
        with self._lock:
            if self._looked is None or not within or now - self._looked[0] > within:
                self._looked = (now, self._read())
            return self._looked[1]

    def examine(self) -> FloorLook:
        """All that can be read of the floor, and what cannot. Positions are in the objects' names, so those are all there."""
        unreadable: set[str] = set()

        def read(key: str) -> _Part:
            try:
                return self._parts.get(key) or self._part(key)
            except Corrupt:
                unreadable.add(key)
                return _Part(KnownScopes.of({}), {})

        with self._lock:
            found = self._every(read)
        return replace(_joined(found), unreadable=tuple(key for key in found if key in unreadable))

    def mend(self, unreadable: Sequence[str], known: KnownScopes, storages: Mapping[str, int]) -> None:
        """Puts one object with this knowledge in the place of those that cannot be read; durable when it returns."""
        with self._lock:
            last = max(map(_position, unreadable))
            self._store.create(self._key(last), _encoded(known, storages))
            self._store.delete(unreadable)
            self._looked = None

    def add(self, position: int, known: Mapping[str, Known] | KnownScopes, storages: Mapping[str, int] | None = None) -> None:
        """Notes what is known of scopes (by keyed hash), and that the log was there up to the position; durable when it
        returns. Small objects of the last look become one with it."""
        with self._lock:
            absorbed = self._small()
            try:
                parts = [self._parts.get(key) or self._part(key) for key in absorbed]
            except Missing:  # others have made one of them
                absorbed, parts = [], []
            seen = _highest([storages or {}, *(part.storages for part in parts)])
            news = known if isinstance(known, KnownScopes) else KnownScopes.of(known)
            scopes = KnownScopes.union([news, *(part.scopes for part in parts)])
            last = max([position, *map(_position, absorbed)])
            key = self._key(last)
            data = _encoded(scopes, seen)
            self._store.create(key, data)
            self._store.delete(absorbed)
            self._sizes = {other: size for other, size in self._sizes.items() if other not in absorbed} | {key: len(data)}
            self._parts = {other: part for other, part in self._parts.items() if other not in absorbed}
            self._parts[key] = _Part(scopes, seen)
            if self._looked is not None:
                self._looked = (self._looked[0], _joined(self._parts))

    def remove(self) -> None:
        """Forgets all of it, with its table."""
        with self._lock:
            self._store.delete(self._list())
            self._parts, self._sizes, self._looked = {}, {}, None

    def _read(self) -> FloorLook:
        self._parts = self._every(lambda key: self._parts.get(key) or self._part(key))
        return _joined(self._parts)

    def _every(self, read: Callable[[str], _Part]) -> dict[str, _Part]:
        for _ in range(_ATTEMPTS):
            try:
                return {key: read(key) for key in self._list()}
            except Missing:
                continue  # it became part of another one since the listing
        raise Conflict(f"{self._store.uri}/{self._prefix} changed {_ATTEMPTS} times while it was read; try again")

    def _key(self, last: int) -> str:
        """A new name that says that last position."""
        return f"{self._prefix}/{last + 1:020d}-{self._new_id()}"

    def _part(self, key: str) -> _Part:
        data = self._store.get(key)
        try:
            with pa.ipc.open_stream(pa.BufferReader(data)) as reader:
                table = reader.read_all()
            storages = json.loads((table.schema.metadata or {}).get(_STORAGES, b"{}"))
            return _Part(KnownScopes(table), storages)
        except (pa.ArrowException, ValueError, KeyError, OSError) as error:
            raise Corrupt(
                f"{self._store.uri}/{key} cannot be read: {error}; lakewarden repair rebuilds it from its copy"
            ) from error

    def _small(self) -> list[str]:
        """Objects that are to become one: the smallest, each no larger than those before it together, if they are enough."""
        chosen: list[str] = []
        size = 0
        for key, bytes_ in sorted(self._sizes.items(), key=lambda item: item[1]):
            if chosen and bytes_ > size:
                break
            chosen.append(key)
            size += bytes_
        return chosen if len(chosen) >= _JOINED else []

    def _list(self) -> list[str]:
        self._sizes = {stored.key: stored.size for stored in self._store.list(self._prefix) if _is_part(stored.key)}
        return list(self._sizes)


@lru_cache(maxsize=4096)
def floor_at(place: FloorPlace) -> Floor:
    """One for the whole process, so that what was read once is there for everybody."""
    return Floor(open_store(place.location), place.prefix)


def _joined(parts: Mapping[str, _Part]) -> FloorLook:
    return FloorLook(
        max(map(_position, parts), default=NOTHING),
        _highest(part.storages for part in parts.values()),
        tuple(part.scopes for part in parts.values()),
    )


def _highest(positions: Iterable[Mapping[str, int]]) -> dict[str, int]:
    highest: dict[str, int] = {}
    for each in positions:
        for storage_id, position in each.items():
            highest[storage_id] = max(position, highest.get(storage_id, NOTHING))
    return highest


def _encoded(scopes: KnownScopes, storages: Mapping[str, int]) -> bytes:
    table = scopes.table.replace_schema_metadata({_STORAGES: json.dumps(dict(storages)).encode()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def _is_part(key: str) -> bool:
    return key.rpartition("/")[2][:20].isdecimal()


def _position(key: str) -> int:
    """Names begin with how many positions were settled: one more than the last."""
    return int(key.rpartition("/")[2][:20]) - 1
