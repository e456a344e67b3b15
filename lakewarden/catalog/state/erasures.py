"""Erasures of users: the keyed hashes of their ids, requests that wait, the unfinished erasures, and the certificates.

The key is random and created once per warehouse. Without it, ids cannot be tried against the stored hashes.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Literal

import msgspec

from lakewarden.errors import Conflict, Corrupt, InvalidArgument, LakewardenError, NotFound
from lakewarden.storage.objects import AlreadyThere, Missing, ObjectStore
from lakewarden.storage.paths import without_id
from lakewarden.storage.sums import kept_as

ROOT = "erasures"
_KEY = f"{ROOT}/key"
_OPEN = f"{ROOT}/open"
_NOTED = f"{ROOT}/noted"
_OVER = f"{ROOT}/over"
_MARK_DIGITS = 32


@dataclass(frozen=True)
class ErasedTable:
    """The number of the user's rows and files in one table."""

    table: str
    hot_rows: int = 0
    files: int = 0
    bytes: int = 0
    tags: int = 0


@dataclass(frozen=True)
class Counts:
    """What an erasure found of the user, noted before it is removed, so that a later attempt can certify the whole.

    Nothing is added for a closed user, so a later attempt finds as much as an earlier one, or less: the larger count is right.
    """

    tables: tuple[ErasedTable, ...] = ()
    exports: int = 0
    jobs: int = 0
    """The number of job states that named the user."""
    audit: int = 0
    """The number of audit log entries that named the user."""
    old_versions: int = 0
    """The number of old object versions that all attempts removed from a versioned bucket."""
    uploads: int = 0
    """The number of incomplete uploads that all attempts aborted."""

    def of(self, table: str) -> ErasedTable:
        return next((found for found in self.tables if found.table == table), ErasedTable(table))

    def and_of(self, other: Counts) -> Counts:
        """What both attempts found, which may have gone on at the same time."""
        found = replace(
            self,
            # The larger count: both attempts saw the same things, and a later one may find less of them.
            exports=max(self.exports, other.exports),
            jobs=max(self.jobs, other.jobs),
            audit=max(self.audit, other.audit),
            # A sum: each attempt counts what it removed itself, so no object is counted twice.
            old_versions=self.old_versions + other.old_versions,
            uploads=self.uploads + other.uploads,
        )
        for each in other.tables:
            found = found.with_table(**vars(each))
        return found

    def with_table(self, table: str, *, hot_rows: int = 0, files: int = 0, bytes: int = 0, tags: int = 0) -> Counts:
        _, *before = vars(self.of(table)).values()
        found = ErasedTable(table, *map(max, before, (hot_rows, files, bytes, tags)))
        return replace(self, tables=(*(other for other in self.tables if other.table != table), found))


@dataclass(frozen=True)
class Erasure:
    """An unfinished erasure. `tables` are ids of tables, `job_id` is that of its first attempt."""

    job_id: str
    mark: str
    tables: tuple[str, ...]
    asked_by: str
    started_at: datetime
    counts: Counts = Counts()
    """What all attempts found."""
    before: Counts = Counts()
    """What those before this attempt found."""


class Erasures:
    """The erasures of one warehouse; `store` is rooted at its `_lakewarden/`. Safe for threads."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def mark(self, user: str) -> str:
        """Returns the keyed hash of a user's id: the first 128 bits of its HMAC-SHA-256."""
        # Keyed, so that who has the state without the key cannot try ids against it.
        return hmac.new(self._key, user.encode(), hashlib.sha256).hexdigest()[:_MARK_DIGITS]

    def marks(self, users: Iterable[str]) -> bytes:
        """Returns the keyed hashes of many users, in bytes, one after the other: in less than half of the time that `mark` takes,
        since what HMAC (RFC 2104) does with the key is done once."""
        key = self._key.ljust(hashlib.sha256().block_size, b"\0")
        inner, outer = (hashlib.sha256(bytes(byte ^ pad for byte in key)) for pad in (0x36, 0x5C))
        found = bytearray()
        for user in users:
            inside, outside = inner.copy(), outer.copy()
            inside.update(user.encode())
            outside.update(inside.digest())
            found += outside.digest()[: _MARK_DIGITS // 2]
        return bytes(found)

    def derived_key(self, *names: str) -> str:
        """Returns a key that follows from the warehouse's and from these names; no keyed hash of a user is one."""
        return hashlib.blake2b("\0".join(names).encode(), key=self._key, person=b"lakewarden-key").hexdigest()

    def begin(self, wanted: Erasure, live: frozenset[str]) -> Erasure:
        """Notes the erasure, or continues an interrupted one of the same user, which may grow to more tables.

        Args:
            live: ids of the tables that exist.

        Raises:
            Conflict: an unfinished erasure of the same user covers a table that this request does not name.
        """
        key = f"{_OPEN}/{wanted.mark}"
        with suppress(AlreadyThere):
            self._store.create(key, _encoded(wanted))
        found = self.under_way(wanted.mark)
        if found is None:
            raise Conflict("an erasure of this user has just finished; request it again")
        # Ending the narrower erasure would remove the note that the other tables are not done. Dropped tables have nothing
        # left.
        if not live.intersection(found.tables).issubset(wanted.tables):
            raise Conflict(
                f"erasure {found.job_id} of this user, which covers other tables too, is not finished; request that one again"
            )
        grown = replace(found, tables=wanted.tables, before=found.counts)
        if not set(wanted.tables).issubset(found.tables):
            self._put(grown, wanted.job_id)
        return grown

    def over(self, table_id: str) -> list[Erasure]:
        """Returns the unfinished erasures that cover one table."""
        marks = [stored.key.rpartition("/")[2] for stored in self._store.list(_OPEN)]
        return [found for mark in marks if (found := self.under_way(mark)) is not None and table_id in found.tables]

    def under_way(self, mark: str) -> Erasure | None:
        found = self._read(f"{_OPEN}/{mark}")
        if found is None:
            return None
        for stored in self._store.list(f"{_NOTED}/{mark}/{found.job_id}"):
            noted = self._read(stored.key)
            if noted is not None:
                # An attempt may have grown to more tables than the first request named.
                tables = tuple(dict.fromkeys((*found.tables, *noted.tables)))
                found = replace(found, tables=tables, counts=found.counts.and_of(noted.counts))
        return found

    def _read(self, key: str) -> Erasure | None:
        try:
            return kept_as(Erasure, self._store.get(key), f"{self._store.uri}/{key} is not an erasure")
        except Missing:
            return None

    def note(self, erasure: Erasure, attempt: str, counts: Counts) -> Erasure:
        """Stores what was found, if it is new.

        Args:
            attempt: the job of the caller, whose own object holds it: two attempts at once overwrite nothing of each other.
        """
        noted = replace(erasure, counts=counts)
        if noted != erasure:
            self._put(noted, attempt)
        return noted

    def _put(self, erasure: Erasure, attempt: str) -> None:
        before = erasure.before
        # Only what this attempt did: sums over all attempts are made when they are read.
        own = replace(
            erasure.counts,
            old_versions=erasure.counts.old_versions - before.old_versions,
            uploads=erasure.counts.uploads - before.uploads,
        )
        self._store.put(f"{_NOTED}/{erasure.mark}/{erasure.job_id}/{attempt}", _encoded(replace(erasure, counts=own)))

    def end(self, erasure: Erasure) -> None:
        """Removes the erasure: it is finished, or given up."""
        # First the erasure, then its notes: a crash in between leaves notes that no erasure refers to.
        self._store.delete([f"{_OPEN}/{erasure.mark}"])
        self._store.delete(self._store.keys(f"{_NOTED}/{erasure.mark}"))  # also of earlier ones, by attempts that slept

    def remember(self, mark: str, now: datetime) -> None:
        """Stores when a user was erased from everything: a process that started earlier may still write the id."""
        self._store.put(f"{_OVER}/{mark}", now.isoformat().encode())

    def is_erased_since(self, mark: str, began: Callable[[], datetime]) -> bool:
        """Returns whether the user is being erased, or was erased from everything since that moment by the store's clock.

        Args:
            began: asked only for those who were ever erased.
        """
        # A process that began before may hold the id in memory, and write it afterwards.
        with suppress(Missing):
            if self._store.get_dated(f"{_OVER}/{mark}")[1] >= began():
                return True
        return self.under_way(mark) is not None  # a second time, where the user came back behind the first one

    def among(self, marks: Collection[str], began: Callable[[], datetime]) -> set[str]:
        """Returns the users for whom `is_erased_since` is true, by one listing."""
        # One listing for all users: of most, nothing is there.
        known = {found.key.rpartition("/")[2] for found in self._store.list(ROOT)}
        return {mark for mark in known.intersection(marks) if self.is_erased_since(mark, began)}

    def erased(self) -> set[str]:
        """Returns the users who are being erased, or were erased from everything, by one listing."""
        return {found.key.rpartition("/")[2] for found in self._store.list(ROOT) if found.key.startswith((_OPEN, _OVER))}

    @cached_property
    def _key(self) -> bytes:
        with suppress(Missing):
            return self._store.get(_KEY)
        if self._store.keys("known"):
            raise Corrupt(f"{self._store.uri}/{_KEY} is gone, by which scopes are known: put it back from a backup")
        with suppress(AlreadyThere):  # another process created it first: its key counts
            # Created if absent: two keys would give a user two hashes, and one of them would never be found.
            self._store.create(_KEY, secrets.token_bytes(32))
        return self._store.get(_KEY)


def _encoded(erasure: Erasure) -> bytes:
    # What came before is of this process's attempt alone.
    return msgspec.json.encode({name: value for name, value in vars(erasure).items() if name != "before"})


# Requested erasures that wait for a runner: one object each, named by the user's keyed hash.
#
# A runner needs only the hash. So an erasure can pass through systems that keep their input for ever, as Dagster keeps the
# parameters of its runs. The object holds the id, and is removed before the search.

_REQUESTS = f"{ROOT}/asked"


@dataclass(frozen=True)
class ErasureRequest:
    """Whom to erase from which tables (by default all USER tables). The certificate repeats `asked_by`."""

    user: str
    tables: tuple[str, ...]
    asked_by: str
    deep: bool


def keep_request(store: ObjectStore, mark: str, request: ErasureRequest) -> None:
    """Stores the request, replacing an earlier one for the same user."""
    store.put(_key(mark), msgspec.json.encode(request))


def find_request(store: ObjectStore, mark: str) -> ErasureRequest:
    """Returns the request under this keyed hash.

    Raises:
        NotFound: there is no request under this keyed hash.
        InvalidArgument: this is not a keyed hash.
        Corrupt: the object cannot be read.
    """
    if not re.fullmatch(r"[0-9a-f]{32}", mark):
        raise InvalidArgument("a request is named by the keyed hash that `lakewarden erase --queue` printed, not by a user's id")
    try:
        data = store.get(_key(mark))
    except Missing:
        raise NotFound(f"no erasure is requested under {mark}: queue it with `lakewarden erase --queue`") from None
    return kept_as(ErasureRequest, data, f"{store.uri}/{_key(mark)} is not a request for an erasure")


def is_requested(store: ObjectStore, mark: str) -> bool:
    """Returns whether an erasure is requested under this keyed hash."""
    try:
        store.get(_key(mark))
    except Missing:
        return False
    return True


@contextmanager
def nameless(user: str, mark: str) -> Iterator[None]:
    """Replaces the user's id by the keyed hash in errors from the block: they reach places where the id could not be removed."""
    try:
        yield
    except LakewardenError as error:
        error.message = without_id(error.message, user, mark)
        error.args = (error.message,)
        error.__cause__ = error.__context__ = None  # these may contain the id too
        raise


def forget_request(store: ObjectStore, mark: str) -> None:
    store.delete([_key(mark)])


def _key(mark: str) -> str:
    return f"{_REQUESTS}/{mark}"


# Certificates: what an erasure removed and what was searched afterwards, with the user's keyed hash in place of the id.
@dataclass(frozen=True)
class Certificate:
    """The certificate of one attempt, with the counts of all attempts. `user` is the keyed hash; times are ISO 8601 in UTC."""

    id: str
    erasure: str
    """The erasure's id: the job id of its first attempt."""
    user: str
    asked_by: str
    result: Literal["complete", "failed"]
    tables: tuple[ErasedTable, ...]
    exports: int
    """The number of removed exports."""
    jobs: int
    """The number of job states in which the keyed hash replaced the id."""
    audit: int
    """The number of such entries of the audit log."""
    old_versions: int
    """The number of old object versions removed from a versioned bucket."""
    to_do: str
    """What remains to be done by hand, and how; empty when nothing does."""
    deep: bool
    objects_searched: int
    bytes_searched: int
    objects_read: int
    checksum: str
    """SHA-256 of the names and sizes of everything that was searched."""
    coincidences: int
    """Objects of other users that contain the id as a value."""
    findings: tuple[str, ...]
    """What was found of the user; empty when nothing was."""
    started_at: str
    finished_at: str
    uploads: int = 0
    """The number of incomplete uploads to the places of the user, the log and the exports, which were aborted."""
    unseen: str = ""
    """What could not be searched, and what becomes of it; empty when there is nothing of the kind."""


def keep_certificate(store: ObjectStore, certificate: Certificate) -> None:
    store.create(f"{ROOT}/{certificate.id}.json", msgspec.json.format(msgspec.json.encode(certificate), indent=1))


def certificates(store: ObjectStore) -> list[Certificate]:
    """Returns all certificates, oldest first.

    Raises:
        Corrupt: a certificate cannot be read.
    """
    keys = [found.key for found in store.list(ROOT) if found.key.endswith(".json")]
    return [kept_as(Certificate, store.get(key), f"{key} is not a certificate") for key in keys]
