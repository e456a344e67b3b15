"""Users of whom a process knows that they are registered (`scopes`), so that its next flush of them asks for nothing."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

_HOLDS = timedelta(minutes=10)
"""Then the registry is read again: what is known here would hide for ever that an entry was lost."""

_MOST = 100_000
"""Users. A flush of more reads the registry."""


@dataclass(frozen=True)
class RegistrationLook:
    """What was so when users with rows in a log were seen to be registered, or is so now."""

    removals: tuple[tuple[str, int], ...]
    """Of the log (`LogView.removals`). Who is removed from the registry is erased from the log first, which shows here."""
    catalog: int
    """A version of the catalog that was read after the registry. A move that begins later reads the registry later."""
    at: datetime

    def holds(self, now: RegistrationLook) -> bool:
        """Returns whether what was seen is still so, and no move that `now.catalog` does not show can have missed it."""
        return self.removals == now.removals and self.catalog <= now.catalog and self.at <= now.at < self.at + _HOLDS


class RegisteredUsers:
    """Those of one warehouse, by table. Safe for threads."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._seen: dict[str, dict[str, RegistrationLook]] = defaultdict(dict)
        self._lock = threading.Lock()

    def has(self, table_id: str, users: Collection[str], now: RegistrationLook) -> bool:
        """Returns whether all of these users are known to be registered, without a look."""
        with self._lock:
            seen = self._seen[table_id]
            return all((before := seen.get(user)) is not None and before.holds(now) for user in users)

    def note(self, table_id: str, users: Collection[str], seen: RegistrationLook) -> None:
        """Notes that these users were seen in the registry. Beyond the most, the others are forgotten."""
        with self._lock:
            if sum(map(len, self._seen.values())) + len(users) > self._most:
                self._seen.clear()
            if len(users) <= self._most:
                self._seen[table_id].update(dict.fromkeys(users, seen))
