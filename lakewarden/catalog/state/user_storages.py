"""Records where the scopes of tables with USE_USER_STORAGE are: decided once, at a scope's first flush, and never changed.

So a user may get another storage at any time: existing scopes stay, and new ones are stored there. A
scope that is on its table's storage moves with the table. The key contains the user's keyed hash, because
the record outlives an erasure: a flush that has read it must not be the only one to use that storage.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from lakewarden.storage.objects import AlreadyThere, Missing, ObjectStore

THE_TABLES = "*"
"""In place of a storage: the scope is on its table's, whichever that is. No storage has such a name."""

_ROOT = "places"


class UserStorages:
    """The records of one warehouse; `store` is rooted at its `_lakewarden/`, `mark` returns the keyed hash. Safe for threads."""

    def __init__(self, store: ObjectStore, mark: Callable[[str], str]) -> None:
        self._store = store
        self._mark = mark
        self._known: dict[str, str] = {}

    def of(self, table_id: str, user: str) -> str | None:
        """Returns the storage that the scope is on, or `THE_TABLES`; None when it has not been decided."""
        key = self._key(table_id, user)
        if key not in self._known:
            try:
                self._known[key] = self._store.get(key).decode()
            # Not remembered: another process may decide at any moment. A decision never changes, so that one is.
            except Missing:
                return None
        return self._known[key]

    def decide(self, table_id: str, user: str, storage_id: str) -> None:
        """Puts the scope on a storage (or on `THE_TABLES`), unless another process has decided already."""
        if self.of(table_id, user) is None:
            with suppress(AlreadyThere):
                self._store.create(self._key(table_id, user), storage_id.encode())

    def used(self) -> set[str]:
        """Returns the storages of scopes that are apart from their tables."""
        return {self._store.get(stored.key).decode() for stored in self._store.list(_ROOT)} - {THE_TABLES}

    def remove(self, table_id: str) -> None:
        """Removes the records of a dropped table."""
        self._store.delete([stored.key for stored in self._store.list(f"{_ROOT}/{table_id}")])

    def _key(self, table_id: str, user: str) -> str:
        return f"{_ROOT}/{table_id}/{self._mark(user)}"
