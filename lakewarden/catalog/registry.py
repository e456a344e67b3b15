"""The scope registry: which users of a table have a scope. Each object is a list of user ids; together they are all.

A registry may lag behind: the scope's table is the truth, and listing the storage is the repair.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from lakewarden.clock import NewId
from lakewarden.errors import Corrupt
from lakewarden.storage.objects import Missing, ObjectStore

_FOLD_AT = 64
"""Objects of one table that are worth folding into one; a listing and as many reads are what a look costs."""


class ScopeRegistry:
    """The registry of one warehouse; `store` is rooted at its `_lakewarden/`. Safe for threads."""

    def __init__(self, store: ObjectStore, new_id: NewId) -> None:
        self._store = store
        self._new_id = new_id
        self._read: dict[str, frozenset[str]] = {}

    def users(self, table_id: str) -> frozenset[str]:
        """Every user that was added.

        Raises:
            Corrupt: an object cannot be read.
        """
        return frozenset().union(*self._segments(table_id).values())

    def add(self, table_id: str, users: Iterable[str]) -> str:
        """Adds users, in one object, and returns its key; those who are there already do no harm."""
        key = self._write(table_id, frozenset(users))
        if len(self._store.list(_prefix(table_id))) > _FOLD_AT:
            self._fold(table_id)
        return key

    def withdraw(self, table_id: str, key: str, users: Iterable[str]) -> None:
        """Takes back users that `add` noted under this key. Who was added by others as well stays."""
        gone = frozenset(users)
        if noted := self._segments(table_id).get(key):
            if kept := noted - gone:
                self._write(table_id, kept)
            self._store.delete([key])

    def discard(self, table_id: str, user: str) -> bool:
        """Forgets one user of a table, and what others fold meanwhile too; whether there was one."""
        found = False
        while named := {key: users for key, users in self._segments(table_id).items() if user in users}:
            found = True
            if kept := frozenset().union(*named.values()) - {user}:
                self._write(table_id, kept)
            self._store.delete(named)
        return found

    def remove(self, table_id: str) -> None:
        """Forgets a table that was dropped."""
        self._store.delete([stored.key for stored in self._store.list(_prefix(table_id))])

    def _fold(self, table_id: str) -> None:
        """One object instead of many. Those folded go only after it is there; two that fold at once leave two."""
        folded = self._segments(table_id)
        self._write(table_id, frozenset().union(*folded.values()))
        self._store.delete(folded)

    def _write(self, table_id: str, users: frozenset[str]) -> str:
        key = f"{_prefix(table_id)}/{self._new_id()}"
        self._store.create(key, json.dumps(sorted(users), ensure_ascii=False).encode())
        return key

    def _segments(self, table_id: str) -> dict[str, frozenset[str]]:
        """All objects, read. Lists until nothing new shows: a folding may hide its objects from a listing under way."""
        segments: dict[str, frozenset[str]] = {}
        unread = self._keys(table_id)
        while unread:
            segments.update({key: users for key in unread if (users := self._users(key)) is not None})
            unread = [key for key in self._keys(table_id) if key not in segments]
        others = {key: users for key, users in self._read.items() if not key.startswith(f"{_prefix(table_id)}/")}
        self._read = others | segments
        return segments

    def _keys(self, table_id: str) -> list[str]:
        return [stored.key for stored in self._store.list(_prefix(table_id))]

    def _users(self, key: str) -> frozenset[str] | None:
        """None if the object was folded since it was listed."""
        if key in self._read:
            return self._read[key]
        try:
            data = self._store.get(key)
        except Missing:
            return None
        try:
            return frozenset(json.loads(data))
        except (ValueError, TypeError) as error:
            raise Corrupt(f"{self._store.uri}/{key} is no list of users: {data[:80]!r}") from error


def _prefix(table_id: str) -> str:
    return f"scopes/{table_id}"
