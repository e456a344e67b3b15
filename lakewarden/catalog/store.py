"""Stores the catalog in the warehouse: a sequence of complete versions, each an object that is created once.

`catalog/<inverted version>.json` sorts newest first. A change creates the version after the one that it read; of two that
race, one finds the name taken and starts over. Old versions are pruned, so a writer that was paused long enough may find
its number free again: a created version counts only if a listing after its creation shows none newer, or if the newer
ones name it among those that they follow.
"""

from __future__ import annotations

import json
import time
import types
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, MISSING, Field, dataclass, fields, is_dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from lakewarden.base.attempts import Attempts
from lakewarden.base.clock import Clock, NewId, random_id
from lakewarden.base.scope import TableName
from lakewarden.catalog.changes.objects import first_catalog
from lakewarden.catalog.column_types import ColumnType
from lakewarden.catalog.model import Catalog, Namespace, Table, TableOptions, TableSchema
from lakewarden.catalog.options import OPTIONS
from lakewarden.errors import Conflict, Corrupt, InvalidArgument, NotDurable, StorageUnavailable
from lakewarden.storage.objects import AlreadyThere, Missing, ObjectStore, StoredObject
from lakewarden.storage.sums import is_whole, with_sum

# Converts the catalog to JSON and back. Fields are those of `catalog.model`; an absent field has its default.
#
# A release that does not know a field leaves it out when it writes the catalog again. So what came later than format 1 has a
# format of its own, which older releases refuse. A catalog has the lowest one that holds all that is in it: as long as nothing
# of the later ones is used, older processes go on.

NEWEST = 3

_LATER: Mapping[type, Mapping[str, int]] = {
    Catalog: {"pipelines": 2, "rules": 2, "blanks": 2, "settings": 3},
    Namespace: {"engine": 2},
    Table: {"description": 2, "dynamic": 2},
    TableOptions: {option.field: option.since for option in OPTIONS.values() if option.since > 1},
    TableSchema: {"partition_by": 2, "keeps_before": 3},
}
"""The fields of later formats than 1, and the format of each."""


@dataclass(frozen=True)
class CatalogVersion:
    """One version object: the catalog, and who wrote it and the versions before it (newest last)."""

    catalog: Catalog
    writes: tuple[str, ...]
    at: datetime | None
    """When its writer's clock said; for people, nothing depends on it."""


def encode(written: CatalogVersion) -> bytes:
    # The lowest that holds all of it, so that older processes go on as long as nothing new is used.
    body = {"format": format_of(written.catalog)} | _plain(written)
    return with_sum(json.dumps(body, default=_plain, ensure_ascii=False, separators=(",", ":")).encode())


def decode(data: bytes, name: str) -> CatalogVersion:
    """`name` says in a message where the bytes came from.

    Raises:
        Corrupt: they are not a catalog, or have a newer format.
    """
    try:
        if not is_whole(data):
            raise ValueError("its checksum is another one")
        body = json.loads(data)
        # A release that wrote the catalog again without fields that it does not know would lose them.
        if body["format"] not in range(1, NEWEST + 1):
            raise Corrupt(f"{name} has format {body['format']!r}; this version of Lakewarden reads formats up to {NEWEST}")
        written: CatalogVersion = _reader(CatalogVersion)(body)
        return written
    except (ValueError, KeyError, TypeError, InvalidArgument) as error:
        raise Corrupt(f"{name} is not a catalog: {error!r} in {data[:80]!r}") from error


def format_of(catalog: Catalog) -> int:
    """The lowest format that holds the catalog."""
    tables = catalog.tables.values()
    schemas = [schema for table in tables for schema in table.schemas]
    keyless = any(not (schema.keyed or schema.append_only) for schema in schemas)
    parts = (catalog, *catalog.namespaces.values(), *tables, *(table.options for table in tables), *schemas)
    return max(2 if keyless else 1, *map(_format_of_part, parts))


def _format_of_part(part: Any) -> int:
    """The highest format of its fields that have another value than their default, or than nothing."""
    later = _LATER.get(type(part), {})
    if not later:
        return 1
    used = (each for each in fields(part) if each.name in later and getattr(part, each.name) not in (_default(each), {}))
    return max((later[each.name] for each in used), default=1)


def _default(field: Field[Any]) -> object:
    return field.default if field.default_factory is MISSING else field.default_factory()


def _plain(value: Any) -> Any:
    """What stands in JSON for a value that is none of its own. Raises TypeError."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, (ColumnType, TableName)):
        return str(value)
    if not is_dataclass(value):
        raise TypeError(f"{value!r} has no form in the catalog")
    members = ((each.name, getattr(value, each.name)) for each in fields(value))
    return {name: {str(k): v for k, v in held.items()} if isinstance(held, dict) else held for name, held in members}


_Read = Callable[[Any], Any]


@lru_cache(maxsize=256)  # a large catalog has many values of few types
def _reader(kind: Any) -> _Read:
    """Returns what makes of JSON a value of this type. That raises ValueError, TypeError, KeyError or InvalidArgument."""
    if kind in _PARSERS:
        return _PARSERS[kind]
    origin, arguments = get_origin(kind), get_args(kind)
    if isinstance(kind, type) and is_dataclass(kind):
        members = {name: _reader(hint) for name, hint in get_type_hints(kind).items()}
        # Unknown members are passed over: the format says when that would lose something.
        return _shaped(
            dict, kind, lambda value: kind(**{name: members[name](item) for name, item in value.items() if name in members})
        )
    if origin is tuple:
        item_of = _reader(arguments[0])
        return _shaped(list, kind, lambda value: tuple(map(item_of, value)))
    if origin is dict:
        key_of, value_of = map(_reader, arguments)
        return _shaped(dict, kind, lambda value: {key_of(key): value_of(item) for key, item in value.items()})
    if origin in (Union, types.UnionType):
        readers = {each: _reader(each) for each in arguments}
        first = readers[arguments[0]]
        return lambda value: None if value is None else readers.get(type(value), first)(value)

    def read(value: Any) -> Any:
        if value not in arguments if origin is Literal else type(value) is not kind:
            raise ValueError(f"{value!r} is no {kind}")
        return value

    return read


def _shaped(shape: type, kind: Any, read: _Read) -> _Read:
    def checked(value: Any) -> Any:
        if type(value) is not shape:
            raise ValueError(f"{value!r} is no {kind}")
        return read(value)

    return checked


_PARSERS: dict[Any, _Read] = {datetime: datetime.fromisoformat, ColumnType: ColumnType.parse, TableName: TableName.parse}


Change = Callable[[Catalog], Catalog]

_PREFIX = "catalog"
_LARGEST = 10**20 - 1
_KEPT = 16
"""Versions that a pruning leaves: a reader that listed one of them still finds it."""
_LINEAGE = 64
"""Earlier writes that a version names. More than `_KEPT`: whoever recreates a pruned number learns that it lost."""
_LONGEST_PAUSE = 0.1
_RECENT = 1.0
"""Seconds. What every write asks of the catalog must not cost it a request."""


@dataclass(eq=False, repr=False)  # its last version has users and settings
class CatalogStore:
    """Reads and changes the catalog of one warehouse; `store` is rooted at its `_lakewarden/`. Safe for threads.

    Args:
        founded: the warehouse has a first version. Else it is made of nothing, by the first change.
    """

    store: ObjectStore
    clock: Clock
    new_id: NewId = random_id
    _: KW_ONLY
    founded: bool = False
    pause: Callable[[float], None] = time.sleep
    monotonic: Callable[[], float] = time.monotonic
    _last: tuple[StoredObject, CatalogVersion] | None = None
    _looked_at: float = -_RECENT

    def read(self) -> Catalog:
        """The newest version.

        Raises:
            Corrupt: it cannot be read.
        """
        return self._newest().catalog

    def recent(self) -> Catalog:
        """The newest version as of a second ago, or later: without a request where the last one was since. Changes by this
        process are always in it.

        Raises:
            Corrupt: it cannot be read.
        """
        if self._last is not None and self.monotonic() - self._looked_at < _RECENT:
            return self._last[1].catalog
        return self.read()

    def last_read(self) -> Catalog:
        """The version that this process read last, however long ago: without a request."""
        return self.read() if self._last is None else self._last[1].catalog

    def change(self, change: Change) -> Catalog:
        """Applies the change to the newest version, again for each lost race; returns the version that it made.

        Not a later one, which others may have made by now: behind a pause, a table of its name or the holder of its lease is
        another one there.

        Raises:
            Conflict: every attempt lost its race, or the outcome of the last one is unknown.
            StorageUnavailable: the store failed; the change may have happened.
            Whatever the change itself raises; nothing was changed then.
        """
        attempts = Attempts(40, f"the catalog in {self.store.uri} changed", "under this change", "nothing is done")
        while attempts.next():
            before = self._newest()
            after = change(before.catalog)
            if after == before.catalog:
                return before.catalog
            made = self._create(before, after)
            if made is not None:
                return made
            # By chance and growing, so that those who lost the same race do not meet again.
            self.pause(self._spread() * min(_LONGEST_PAUSE, 0.002 * 2 ** (attempts.made - 1)))

    def _spread(self) -> float:
        """From 0 to 1, another for everyone who races."""
        return int(self.new_id()[-4:], 16) / 0xFFFF

    def _create(self, before: CatalogVersion, after: Catalog) -> Catalog | None:
        """The version with the change; None if another one came first."""
        write = self.new_id()
        version = before.catalog.version + 1
        # With the writes before: who sees only a later version can still tell whether this one is among those it follows.
        written = CatalogVersion(replace(after, version=version), (*before.writes[1 - _LINEAGE :], write), self.clock())
        try:
            self.store.create(_key(version), encode(written))
        except AlreadyThere:
            pass  # by another, or by this very put, repeated below us after its answer was lost
        except NotDurable:
            raise  # that it is visible proves nothing
        except StorageUnavailable:
            if not _holds(self._newest(), version, write):
                raise  # it may still arrive
        # The version that was made, and not the newest: a caller's lease or table may be another's there by now.
        return written.catalog if self._counts(version, write) else None

    def _counts(self, version: int, write: str) -> bool:
        """Whether the write is the version, and not another one that came first."""
        newest = self._newest()
        counted = _holds(newest, version, write)
        # Too many versions since: neither yes nor no can be proved.
        if counted is None:
            raise Conflict(
                f"the catalog in {self.store.uri} went on from version {version} to {newest.catalog.version} under this change, "
                "and whether it was done is not known: look, and try again"
            )
        # Every sixteenth change, so that pruning costs most changes no request.
        if counted and version % _KEPT == 0:
            self._prune(newest.catalog.version)
        return counted

    def _newest(self) -> CatalogVersion:
        while True:
            now = self.monotonic()
            versions = self.store.list(_PREFIX)
            known = self._last
            if not versions and known is None:
                if self.founded:
                    raise Corrupt(f"the catalog in {self.store.uri} is gone: put {_PREFIX}/ back from a backup")
                return CatalogVersion(first_catalog(), (), None)
            if not versions:
                raise StorageUnavailable(f"the catalog in {self.store.uri} was there before, and is not: is its disk mounted?")
            try:
                # The listing's line (key, size, time) is compared: a number that was pruned may have come again.
                written = known[1] if known is not None and known[0] == versions[0] else self._decoded(versions[0])
            except Missing:
                continue  # pruned since the listing, so there are newer ones
            self._keep(now, versions[0], written)
            return written

    def _keep(self, now: float, stored: StoredObject, written: CatalogVersion) -> None:
        """Remembers the version, unless another thread saw a newer one meanwhile."""
        if self._last is None or written.catalog.version >= self._last[1].catalog.version:
            self._last, self._looked_at = (stored, written), now

    def _decoded(self, version: StoredObject) -> CatalogVersion:
        name = f"{self.store.uri}/{version.key}"
        written = decode(self.store.get(version.key), name)
        # An object that was copied over another's name is whole by its checksum.
        if _key(written.catalog.version) != version.key:
            raise Corrupt(f"{name} holds version {written.catalog.version}, which is not its name")
        return written

    def _prune(self, newest: int) -> None:
        oldest_kept = _key(max(0, newest - _KEPT))
        self.store.delete([stored.key for stored in self.store.list(_PREFIX) if stored.key > oldest_kept])


def _holds(newest: CatalogVersion, version: int, write: str) -> bool | None:
    """Whether the newest version follows from this write, or is it; None if it goes back too far to tell."""
    back = newest.catalog.version - version
    if back < 0:
        return False
    return newest.writes[-1 - back] == write if back < len(newest.writes) else None


def _key(version: int) -> str:
    return f"{_PREFIX}/{_LARGEST - version:020d}.json"
