"""Erasures of users: the keyed hashes that stand for their ids, which are under way, and the certificates.

The key is random and made once per warehouse. Without it, nobody can try ids against the hashes that are kept.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Collection
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from functools import cached_property

from lakewarden.errors import Conflict, Corrupt
from lakewarden.storage.objects import AlreadyThere, Missing, ObjectStore

ROOT = "erasures"
_KEY = f"{ROOT}/key"
_OPEN = f"{ROOT}/open"
_OVER = f"{ROOT}/over"
_MARK_DIGITS = 32


@dataclass(frozen=True)
class ErasedTable:
    """What one table had of the user."""

    table: str
    hot_rows: int = 0
    files: int = 0
    bytes: int = 0
    tags: int = 0


@dataclass(frozen=True)
class Counts:
    """What an erasure found of the user, noted before it goes: so whoever goes on with it certifies the whole.

    Nothing of a closed user is added, so a later attempt finds what an earlier one found, or less: the larger count holds.
    """

    tables: tuple[ErasedTable, ...] = ()
    exports: int = 0
    jobs: int = 0
    """States of jobs that named the user."""
    audit: int = 0
    """Entries of the audit log that named the user."""
    old_versions: int = 0
    """Old versions of objects that were removed from a versioned bucket, by all attempts."""
    uploads: int = 0
    """Uploads that somebody never ended, given up by all attempts."""

    def of(self, table: str) -> ErasedTable:
        return next((found for found in self.tables if found.table == table), ErasedTable(table))

    def with_table(self, table: str, *, hot_rows: int = 0, files: int = 0, bytes: int = 0, tags: int = 0) -> Counts:
        before = self.of(table)
        found = ErasedTable(
            table,
            max(before.hot_rows, hot_rows),
            max(before.files, files),
            max(before.bytes, bytes),
            max(before.tags, tags),
        )
        return replace(self, tables=(*(other for other in self.tables if other.table != table), found))


@dataclass(frozen=True)
class Erasure:
    """One that is under way. `tables` are ids of tables, `job_id` that of its first attempt."""

    job_id: str
    mark: str
    tables: tuple[str, ...]
    asked_by: str
    started_at: datetime
    counts: Counts = Counts()


class Erasures:
    """Those of one warehouse; `store` is rooted at its `_lakewarden/`. Safe for threads."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def mark(self, user: str) -> str:
        """The keyed hash of a user's id: HMAC-SHA-256, its first 128 bits."""
        return hmac.new(self._key, user.encode(), hashlib.sha256).hexdigest()[:_MARK_DIGITS]

    def begin(self, wanted: Erasure, live: frozenset[str]) -> Erasure:
        """Notes the erasure, or goes on with one of the same user that was interrupted, which may grow to more tables.

        Args:
            live: ids of the tables that are there.

        Raises:
            Conflict: one of the same user is under way over a table that is not wanted now.
        """
        key = f"{_OPEN}/{wanted.mark}"
        with suppress(AlreadyThere):
            self._store.create(key, _encoded(wanted))
        found = self.under_way(wanted.mark)
        if found is None:
            raise Conflict("an erasure of this user ended just now; ask for it again")
        if not live.intersection(found.tables).issubset(wanted.tables):
            raise Conflict(
                f"erasure {found.job_id} of this user, over other tables too, is not over; ask for that one again first"
            )
        grown = replace(found, tables=wanted.tables)
        if grown != found:
            self._store.put(key, _encoded(grown))
        return grown

    def over(self, table_id: str) -> list[Erasure]:
        """Those under way over one table."""
        marks = [stored.key.rpartition("/")[2] for stored in self._store.list(_OPEN)]
        return [found for mark in marks if (found := self.under_way(mark)) is not None and table_id in found.tables]

    def under_way(self, mark: str) -> Erasure | None:
        key = f"{_OPEN}/{mark}"
        try:
            data = self._store.get(key)
        except Missing:
            return None
        try:
            content = json.loads(data)
            moment = datetime.fromisoformat(content.pop("started_at"))
            counts = content.pop("counts")
            tables = tuple(ErasedTable(**table) for table in counts.pop("tables"))
            return Erasure(**{**content, "tables": tuple(content["tables"])}, started_at=moment, counts=Counts(tables, **counts))
        except (ValueError, KeyError, TypeError) as error:
            raise Corrupt(f"{self._store.uri}/{key} is no erasure: {data[:80]!r}") from error

    def note(self, erasure: Erasure, counts: Counts) -> Erasure:
        """Keeps what was found, if it is news."""
        noted = replace(erasure, counts=counts)
        if noted != erasure:
            self._store.put(f"{_OPEN}/{erasure.mark}", _encoded(noted))
        return noted

    def end(self, erasure: Erasure) -> None:
        """It is over, or given up."""
        self._store.delete([f"{_OPEN}/{erasure.mark}"])

    def remember(self, mark: str, now: datetime) -> None:
        """Keeps when a user was erased from everything: who began before that may still come with the id."""
        self._store.put(f"{_OVER}/{mark}", now.isoformat().encode())

    def since(self, mark: str, began: datetime) -> bool:
        """Whether the user is being erased, or was from everything since that moment."""
        try:
            return datetime.fromisoformat(self._store.get(f"{_OVER}/{mark}").decode()) >= began
        except Missing:
            return self.under_way(mark) is not None
        except ValueError as error:
            raise Corrupt(f"{self._store.uri}/{_OVER}/{mark} is no moment: {error}") from error

    def among(self, marks: Collection[str], began: datetime) -> set[str]:
        """Those of the users of whom `since` says so, by one listing."""
        known = {found.key.rpartition("/")[2] for found in self._store.list(ROOT)}
        return {mark for mark in known.intersection(marks) if self.since(mark, began)}

    @cached_property
    def _key(self) -> bytes:
        with suppress(Missing):
            return self._store.get(_KEY)
        with suppress(AlreadyThere):  # another process made it in between: its key holds
            self._store.create(_KEY, secrets.token_bytes(32))
        return self._store.get(_KEY)


def _encoded(erasure: Erasure) -> bytes:
    return json.dumps({**asdict(erasure), "started_at": erasure.started_at.isoformat()}).encode()
