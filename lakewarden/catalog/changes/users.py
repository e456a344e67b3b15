"""Changes of users, like those of `catalog.changes.objects`: they take a catalog and return the next one. Dropping is soft."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from datetime import datetime

from lakewarden.base.clock import behind
from lakewarden.catalog.changes.objects import check_storage
from lakewarden.catalog.model import Catalog, StorageMode, User
from lakewarden.catalog.names import Role
from lakewarden.errors import AlreadyExists, InvalidArgument, NotFound, PermissionDenied
from lakewarden.storage.paths import check_user

_EMAIL = re.compile(r"[^@\s]{1,64}@[^@\s]{1,190}")


@dataclass(frozen=True)
class UserChange:
    """What ALTER USER sets; None leaves it as it is. `clear_storage` takes a storage of the user's own away."""

    password_hash: str | None = field(default=None, repr=False)
    role: Role | None = None
    email: str | None = None
    storage_mode: StorageMode | None = None
    storage_id: str | None = None
    clear_storage: bool = False


def add_user(catalog: Catalog, user: User, by: Role) -> Catalog:
    """Raises:
    InvalidArgument: an impossible name, the role `anonymous`, a password's user without one, or an email that is not valid.
    AlreadyExists: there is one of that name, or there was: its rows are still there under it.
    NotFound: no such storage.
    PermissionDenied: only `system` makes users of the role `system`.
    """
    _check_new(user)
    _check_reach(by, "create", user.user_id, user.role)
    there = catalog.users.get(user.user_id)
    if there is not None:
        was = "" if there.deleted_at is None else " (it was dropped; what it wrote is still kept under its name)"
        raise AlreadyExists(f"there is a user {user.user_id!r} already{was}")
    _check_storage(catalog, user)
    return replace(catalog, users={**catalog.users, user.user_id: user})


def alter_user(catalog: Catalog, user_id: str, change: UserChange, by: Role, now: datetime) -> Catalog:
    """Raises:
    NotFound: no such user, or no such storage.
    PermissionDenied: only `system` makes, or changes, users of the role `system`.
    InvalidArgument: a password for a user who signs in another way; an email that is not valid.
    """
    before = find_user(catalog, user_id)
    # Twice: neither may an administrator change one of `system`, nor make one.
    _check_reach(by, "alter", user_id, before.role)
    _check_reach(by, "promote", user_id, change.role or before.role)
    if change.role == "anonymous":
        raise InvalidArgument("no user has the role 'anonymous': it is that of sessions without one")
    if change.password_hash is not None and before.auth_type != "password":
        raise InvalidArgument(f"user {user_id!r} signs in by {before.auth_type}, without a password")
    after = replace(
        before,
        password_hash=change.password_hash or before.password_hash,
        role=change.role or before.role,
        email=before.email if change.email is None else _email(change.email),
        storage_mode=change.storage_mode or before.storage_mode,
        storage_id=None if change.clear_storage else change.storage_id or before.storage_id,
        # A token ends with the first change that is behind the one that it knows.
        updated_at=behind(before.updated_at, now),
    )
    _check_storage(catalog, after)
    return replace(catalog, users={**catalog.users, user_id: after})


def drop_user(catalog: Catalog, user_id: str, by: Role, now: datetime) -> Catalog:
    """Marks the user as deleted; the name stays taken.

    Raises:
        NotFound: no such user, or it was dropped before.
        PermissionDenied: only `system` drops users of the role `system`.
    """
    before = find_user(catalog, user_id)
    _check_reach(by, "drop", user_id, before.role)
    return replace(catalog, users={**catalog.users, user_id: replace(before, deleted_at=now, updated_at=now)})


def find_user(catalog: Catalog, user_id: str) -> User:
    """Raises NotFound: no such user, or one that was dropped."""
    user = catalog.users.get(user_id)
    if user is None or user.deleted_at is not None:
        raise NotFound(f"there is no user {user_id!r}")
    return user


def own_storage(catalog: Catalog, user_id: str) -> str | None:
    """The storage that a user's scopes go to, where their table uses it; a dropped user's too."""
    user = catalog.users.get(user_id)
    # A dropped user's too: their rows are still there, and later ones go beside them.
    return user.storage_id if user is not None and user.storage_mode == "region" else None


def role_of(catalog: Catalog, user_id: str) -> Role | None:
    """Returns the role that counts when a session takes this user's place: a dropped administrator still counts as one."""
    user = catalog.users.get(user_id)
    return None if user is None else user.role


def _check_new(user: User) -> None:
    check_user(user.user_id)
    if user.role == "anonymous":
        raise InvalidArgument("no user has the role 'anonymous': it is that of sessions without one")
    if (user.auth_type == "password") != (user.password_hash is not None):
        raise InvalidArgument(f"user {user.user_id!r}: a password goes with auth_type 'password', and with no other")
    if user.email is not None:
        _email(user.email)


def _check_reach(by: Role, act: str, user_id: str, role: Role) -> None:
    if role == "system" and by != "system":
        raise PermissionDenied(f"role {by!r} may not {act} user {user_id!r} with role 'system'; system may")


def _check_storage(catalog: Catalog, user: User) -> None:
    if user.storage_id is not None:
        check_storage(catalog, user.storage_id)


def _email(text: str) -> str:
    if not _EMAIL.fullmatch(text):
        raise InvalidArgument(f"email {text[:80]!r} is not one; the form is name@example.org")
    return text
