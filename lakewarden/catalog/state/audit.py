"""The audit log: who did what, or was refused. Append-only: an entry is an object that is never changed, except by the
erasure of a user, whose keyed hash replaces the id (`catalog.state.records`).

Keys begin with the inverted moment, so that a listing shows the newest first. No statement's text is kept, and hence no
password.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

import msgspec

from lakewarden.base.clock import Clock, NewId
from lakewarden.catalog.access import Principal
from lakewarden.catalog.state.records import backwards, changed, content, first_of, newest, rewrite_all
from lakewarden.storage.objects import ObjectStore
from lakewarden.storage.paths import without_name
from lakewarden.storage.sums import kept_as

_ROOT = "audit"


@dataclass(frozen=True)
class AuditEntry:
    """One act. `action` is in capitals, such as CREATE_TABLE; `details` is text for people."""

    audit_id: str
    timestamp: datetime
    actor_user_id: str
    action: str
    target: str
    details: str = ""
    subject_user_id: str | None = None
    """The user in whose place it was done."""
    request_id: str | None = None
    """The request over a network that did it."""


@dataclass(frozen=True)
class AuditLog:
    """The audit log of one warehouse; `store` is rooted at its `_lakewarden/`. Safe for threads."""

    store: ObjectStore
    clock: Clock
    new_id: NewId

    def note(self, principal: Principal, action: str, target: str, details: str = "", subject: str | None = None) -> AuditEntry:
        """Stores one act; returns when it is durable.

        Args:
            principal: who acts. In EXECUTE AS USER, the actor is the user who runs it, and the subject is the other.
            target: what it is done to, such as `table:app.t` or `user:alice`.
            subject: the user to act as, if the principal does not act as that user yet.
        """
        actor = principal.actor or principal
        taken = principal.user if principal.actor else None
        entry = AuditEntry(
            self.new_id(), self.clock(), actor.user, action, target, details, subject or taken, principal.opener.request_id
        )
        # Durable before the act is answered; the id in the name keeps two acts of one millisecond apart.
        self.store.create(_key(entry), msgspec.json.encode(entry))
        return entry

    def newest(self, limit: int | None = None) -> list[AuditEntry]:
        """Returns the last entries, newest first. Names are in order by the millisecond, and entries by the microsecond."""
        found = (self._read(stored.key) for stored in newest(self.store.list(_ROOT))[:limit])
        return sorted((entry for entry in found if entry), key=lambda entry: entry.timestamp, reverse=True)

    def expire(self, before: datetime) -> int:
        """Removes older entries, and returns how many."""
        # Moments are counted backwards, so a greater key is an older one.
        old = [stored.key for stored in self.store.list(_ROOT) if stored.key > f"{_ROOT}/{backwards(before)}"]
        self.store.delete(old)
        return len({*map(first_of, old)})

    def hide_user(self, user: str, mark: str, found: Callable[[int], None]) -> None:
        """Replaces a user's id by the keyed hash. Calls `found` with the number of entries before changing the first."""
        rewrite_all(self.store, _ROOT, partial(changed, _decode, partial(_without, user=user, mark=mark)), found)

    def _read(self, key: str) -> AuditEntry | None:
        data = content(self.store, key)
        return None if data is None else _decode(key, data)


def _without(entry: AuditEntry, user: str, mark: str) -> AuditEntry:
    return replace(
        entry,
        actor_user_id=mark if entry.actor_user_id == user else entry.actor_user_id,
        subject_user_id=mark if entry.subject_user_id == user else entry.subject_user_id,
        target=f"user:{mark}" if entry.target == f"user:{user}" else entry.target,
        details=without_name(entry.details, user, mark),
    )


def _key(entry: AuditEntry) -> str:
    return f"{_ROOT}/{backwards(entry.timestamp)}-{entry.audit_id}"


def _decode(key: str, data: bytes) -> AuditEntry:
    return kept_as(AuditEntry, data, f"the audit entry {key} can't be read")
