"""The keys that sign access tokens: one for each day, in the warehouse, so that all servers of it share them.

`serve/keys/<days since 1970>` is created once, by whichever server first needs it. A key verifies tokens of its own day and of
the next; the longest token lives for less than a day. What is older is removed when a key is made.
"""

from __future__ import annotations

import secrets
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from lakewarden.storage.objects import AlreadyThere, Missing, ObjectStore

_ROOT = "serve/keys"
_BYTES = 32
PERIOD = timedelta(days=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Key:
    id: str
    secret: bytes = field(repr=False)


@dataclass(frozen=True)
class SigningKeys:
    """The keys of one warehouse; `store` is rooted at its `_lakewarden/`. Safe for threads."""

    store: ObjectStore
    _known: dict[str, Key] = field(default_factory=dict)

    def signing(self, now: datetime) -> Key:
        """The key of the day, made if this is its first use."""
        today = _period(now)
        found = self._read(today)
        if found is not None:
            return found
        with suppress(AlreadyThere):
            self.store.create(f"{_ROOT}/{today}", secrets.token_bytes(_BYTES))
        self._remove_older(today - 1)
        made = self._read(today)
        assert made is not None, "it was created just now, by this process or another, and only older ones are removed"
        return made

    def verifying(self, key_id: str, now: datetime) -> Key | None:
        """The key of that id, if its tokens may still be valid."""
        today = _period(now)
        if key_id not in (str(today), str(today - 1)):
            return None
        return self._read(int(key_id))

    def _read(self, period: int) -> Key | None:
        name = str(period)
        if name not in self._known:
            try:
                self._known[name] = Key(name, self.store.get(f"{_ROOT}/{name}"))
            except Missing:
                return None
        return self._known[name]

    def _remove_older(self, period: int) -> None:
        self.store.delete([key for key in self.store.keys(_ROOT) if int(key.rpartition("/")[2]) < period])


def _period(now: datetime) -> int:
    return (now - _EPOCH) // PERIOD
