"""Searches for anything left of an erased user. Shares no code with the erasure: it has its own listing and readers.

A finding is an object of the user's, by its path, its footer, its header or its name in a list. Other users' rows may hold
the same text as a value; those are counted, but are not findings.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from threading import Lock

from lakewarden.base.connection import Location
from lakewarden.base.threads import at_once
from lakewarden.maintenance.verify import formats
from lakewarden.maintenance.verify.contents import (
    Whose,
    match,
    named_in_data,
    named_in_plan,
    named_in_state,
    named_in_survey,
    stands_for,
    within,
)
from lakewarden.maintenance.verify.listing import ListedObject, OldVersion, OldVersions, content, everything, open_uploads, part
from lakewarden.storage.location import join

_STATE = "_lakewarden"
_DELTA_LOG = "_delta_log/"
_INSIDE = frozenset({"_delta_log", "_files", "_change_data"})
"""Directories in every scope, whatever a user may be called."""

_OF_LOGS = frozenset({"log", "live"})
_OF_TABLES = frozenset({"tags", "leases", "scopes"})
_SURVEYS = "surveys"
_OF_ALL = frozenset({"jobs", "audit", "fleet", _SURVEYS})
"""Rooms of the warehouse's state by owner: single tables, or the whole warehouse."""

_BY_LINE = "plans"
"""The room whose lines each belong to a table."""

_SURVEY_SUMS = "fleet/surveys/"
"""Objects of the fleet that say what a survey found, as those of the room `surveys` do."""

_SMALL = 1 << 20
"""Bytes up to which a file is read whole."""

_FLOOR = re.compile(r"/(?:_lakewarden/known|\.lakewarden-floor)/([^/]+)/[^/]+$")
"""An object of a table's floor, in the state or on a storage; the table's id."""

_OWN = re.compile(r"(^|/)(\.lakewarden-owner|\.lakewarden-probe/.*)$")


@dataclass(frozen=True)
class Suspect:
    """A table that a user was erased from. `base` and `template` are those of its storage."""

    table_id: str
    log_id: str
    namespace: str
    name: str
    base: str
    template: str


@dataclass(frozen=True)
class ErasureSearch:
    """What to look for, and where. `whole`: the user was erased from every table, so no job may name them either."""

    warehouse: str
    user: str
    mark: str
    suspects: tuple[Suspect, ...]
    others: tuple[Suspect, ...]
    """The other tables of the warehouse, whose files may hold the id as a value."""
    storages: tuple[Location, ...]
    exports: tuple[str, ...]
    """Places that the user was exported to: no export may be left there."""
    whole: bool
    deep: bool
    versions: bool
    """Whether to search old versions in a bucket too; not if they are known to remain."""


@dataclass(frozen=True, order=True)
class ErasureTrace:
    uri: str
    what: str


@dataclass(frozen=True)
class SearchResult:
    """`checksum` is the SHA-256 over the sorted names and sizes of all objects searched."""

    objects: int
    bytes: int
    checksum: str
    read: int
    """Objects whose bytes were read."""
    coincidences: int
    """Objects of others, or of the warehouse itself, that hold the id as a value."""
    findings: tuple[ErasureTrace, ...]
    unseen: str
    """What could not be listed, and so was not searched; empty where all was."""


def search(wanted: ErasureSearch) -> SearchResult:
    """Raises:
    StorageUnavailable, StorageRefused: a place cannot be listed or read.
    """
    look = _Look(wanted)
    seen = {found.uri: found for found in _places(wanted)}
    at_once(look.at, seen.values())
    kept = (Location(wanted.warehouse).below(_STATE), *map(Location, wanted.exports), *wanted.storages)
    for place in kept if wanted.versions else ():
        old = OldVersions(place)
        for each in old:
            look.at_old(each, old)
    uploads = [open_uploads(place) for place in kept]
    for upload in {found.uri: found for opened in uploads for found in opened.found}.values():
        look.at_upload(upload)
    unseen = "; ".join(sorted({opened.unseen for opened in uploads if opened.unseen}))
    lines = "".join(f"{uri} {seen[uri].size}\n" for uri in sorted(seen))
    checksum = hashlib.sha256(lines.encode(errors="surrogateescape")).hexdigest()
    total = sum(found.size for found in seen.values())
    return SearchResult(len(seen), total, checksum, look.read, look.coincidences, tuple(sorted(look.findings)), unseen)


def _places(wanted: ErasureSearch) -> Iterator[ListedObject]:
    """Storages come last: an object in a storage is judged as that storage's."""
    if wanted.deep:
        yield from everything(Location(wanted.warehouse))
    yield from everything(Location(wanted.warehouse).below(_STATE))
    yield from everything(Location(wanted.warehouse).below("exports"))
    for place in (*map(Location, wanted.exports), *wanted.storages):
        yield from everything(place)


def _whose(table: Suspect, found: ListedObject) -> Whose | None:
    key = found.uri.removeprefix(f"{table.base}/")
    return None if key == found.uri else match(table.template, table.namespace, table.name, key)


class _Look:
    """One search under way; safe for threads."""

    def __init__(self, wanted: ErasureSearch) -> None:
        self._wanted = wanted
        self._state = join(wanted.warehouse, _STATE)
        self._word = re.compile(rb"(?<![0-9A-Za-z_])" + re.escape(wanted.user.encode()) + rb"(?![0-9A-Za-z_])")
        self._logs = {suspect.log_id for suspect in wanted.suspects}
        self._tables = {suspect.table_id for suspect in wanted.suspects}
        self._names = {f"{suspect.namespace}.{suspect.name}" for suspect in wanted.suspects}
        self._counting = Lock()
        self.findings: list[ErasureTrace] = []
        self.coincidences = 0
        self.read = 0

    def at(self, found: ListedObject) -> None:
        relative = found.uri.removeprefix(f"{self._state}/")
        if floor := _FLOOR.search(found.uri):
            self._at_floor(found, floor[1])
        elif relative != found.uri:
            self._at_state(found, relative)
        else:
            self._at_data(found)

    def _at_floor(self, found: ListedObject, table_id: str) -> None:
        """Checks a floor: its hashes and counts may look like an id by chance, so their bytes are not searched."""
        if not (table_id in self._tables or self._wanted.deep):
            return
        data = self._content(found)
        if data is not None and not formats.counts_only(data):
            self._report(found, "a floor that holds more than keyed hashes, versions and counts")

    def at_old(self, old: OldVersion, place: OldVersions) -> None:
        """Checks a replaced or deleted version: the user's by its path, or by the header of a part of the write log."""
        if self._exported(old.found):
            self._report(old.found, "an old version in an export of the user")
        elif (key := old.found.uri.removeprefix(f"{self._state}/")) == old.found.uri:
            if self._in_users_scope(old.found):
                self._report(old.found, "an old version in the user's scope")
        elif key.startswith("log/") and "/cuts/" not in key and key.split("/")[1] in self._logs:
            self._count(read=1)
            if self._wanted.user in (formats.log_users(place.content(old)) or ()):
                self._report(old.found, "an old version with rows of the user in the write log")

    def _exported(self, found: ListedObject) -> bool:
        return any(found.uri.startswith(f"{place}/") for place in self._wanted.exports)

    def at_upload(self, found: ListedObject) -> None:
        """Checks parts of an unfinished object. They cannot be read, so only their place shows whose they are."""
        room, _, key = found.uri.removeprefix(f"{self._state}/").partition("/")
        in_log = found.uri.startswith(f"{self._state}/") and room in _OF_LOGS and key.partition("/")[0] in self._logs
        if in_log or self._exported(found) or self._in_users_scope(found):
            self._report(found, "an incomplete upload at a place of the user's")

    def _in_users_scope(self, found: ListedObject) -> bool:
        theirs = (_whose(suspect, found) for suspect in self._wanted.suspects)
        return any(stands_for(whose.user, self._wanted.user) for whose in theirs if whose is not None)

    def _at_state(self, found: ListedObject, key: str) -> None:
        room, _, rest = key.partition("/")
        room = _SURVEYS if key.startswith(_SURVEY_SUMS) else room
        owner = rest.partition("/")[0]
        owners = self._logs if room in _OF_LOGS else self._tables if room in _OF_TABLES else set()
        relevant = owner in owners or room in (".tmp", _BY_LINE) or (room in _OF_ALL and self._wanted.whole)
        if room == "exports" and owner == self._wanted.mark:
            self._report(found, "an export of the user is still on record")
        if room == "erasures" and rest == f"asked/{self._wanted.mark}":
            self._report(found, "a request for the user's erasure, with the id")
        if not (relevant or self._wanted.deep):
            return
        data = self._content(found)
        if data is None:
            return
        what = self._named_in_state(room, data) if relevant else ""
        if what:
            self._report(found, what)
        elif self._wanted.deep and self._word.search(data):
            self._count(coincidences=1)

    def _named_in_state(self, room: str, data: bytes) -> str:
        if room == _BY_LINE:
            return named_in_plan(data, self._wanted.user, None if self._wanted.whole else self._names)
        if room == _SURVEYS:
            return named_in_survey(data, self._wanted.user)
        return named_in_state(room, data, self._wanted.user)

    def _at_data(self, found: ListedObject) -> None:
        what, known, suspect = self._by_path(found)
        if what is None:
            return
        if what:
            self._report(found, what)
            return
        exported = found.uri.startswith(f"{join(self._wanted.warehouse, 'exports')}/") or self._exported(found)
        if not (suspect or exported or self._wanted.deep):
            return
        data = self._content(found) if self._wanted.deep or found.size <= _SMALL else self._ends(found)
        if data is None:
            return
        if what := named_in_data(data, self._wanted.user, self._names):
            self._report(found, what)
        elif self._wanted.deep:
            self._by_value(found, data, known)

    def _by_path(self, found: ListedObject) -> tuple[str | None, bool, bool]:
        """What is wrong by the path, None for a sound fence; whether it is some user's; whether it is of these tables."""
        user = self._wanted.user
        for suspect in self._wanted.suspects:
            key = found.uri.removeprefix(f"{suspect.base}/")
            folders = None if key == found.uri else within(suspect.template, suspect.namespace, suspect.name, key)
            if folders is None:
                continue
            whose = _whose(suspect, found)
            if whose is not None and stands_for(whose.user, user):
                return self._in_scope(found, whose.rest), True, True
            if any(stands_for(folder, user) for folder in folders if folder not in _INSIDE):
                return "its path names the user", True, True
            return "", whose is not None, True
        return "", any(_whose(other, found) for other in self._wanted.others), False

    def _in_scope(self, found: ListedObject, rest: str) -> str | None:
        """The user's own scope may hold only a fence: a Delta log with no live file."""
        name = rest.rpartition("/")[2]
        if not rest.startswith(_DELTA_LOG):
            return "a file in the user's scope"
        if name.startswith(".") and not name.endswith(".crc"):  # Hadoop's checksums
            return "a commit of the user's scope that never got its name"
        data = self._content(found)
        if data is None or not formats.live_files(data):
            return None
        return "Delta's log of the user's scope still adds files"

    def _by_value(self, found: ListedObject, data: bytes, known: bool) -> None:
        text = formats.values(data).encode() if formats.footer(data) is not None else data
        if not self._word.search(text):
            return
        in_table = _DELTA_LOG in f"{found.uri}/"  # beside a log, or below one
        if known or _OWN.search(found.key) or not self._wanted.whole or in_table:
            self._count(coincidences=1)
        else:
            self._report(found, "the user's id in an object that belongs to no user")

    def _content(self, found: ListedObject) -> bytes | None:
        data = content(found)
        self._count(read=data is not None)
        return data

    def _ends(self, found: ListedObject) -> bytes:
        """The footer or the beginning of a large file, which shows whose it is."""
        self._count(read=1)
        length = formats.footer_bytes(part(found, found.size - 8, 8))
        if length:
            return formats.only_footer(part(found, found.size - length, length))
        return part(found, 0, _SMALL)

    def _count(self, *, read: int = 0, coincidences: int = 0) -> None:
        with self._counting:
            self.read += read
            self.coincidences += coincidences

    def _report(self, found: ListedObject, what: str) -> None:
        self.findings.append(ErasureTrace(found.uri, what))
