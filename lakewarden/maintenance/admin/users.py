"""Creates, changes and drops users: the gate decides, then the catalog changes once, then the audit log records it."""

from __future__ import annotations

from dataclasses import replace

from lakewarden.catalog.changes.users import UserChange, add_user, alter_user, drop_user, find_user
from lakewarden.catalog.model import User
from lakewarden.catalog.passwords import REDACTED, check_password, hash_password
from lakewarden.catalog.session_gate import Door
from lakewarden.tables.warehouse import Warehouse


def create_user(warehouse: Warehouse, door: Door, user: User, password: str | None = None) -> User:
    """Raises:
    PermissionDenied, InvalidArgument, AlreadyExists, NotFound: as `catalog.changes.users`; nothing was created.
    """
    door.allow("manage users")
    if password is not None:
        user = replace(user, password_hash=hash_password(check_password(password)))
    with door.watched(f"user:{user.user_id}"):
        warehouse.catalog.change(lambda catalog: add_user(catalog, user, door.principal.role))
    how = f"password {REDACTED}" if password is not None else user.auth_type
    door.audit.note(door.principal, "CREATE_USER", f"user:{user.user_id}", f"role {user.role}, {how}")
    return user


def change_user(warehouse: Warehouse, door: Door, user_id: str, change: UserChange, password: str | None = None) -> User:
    """Raises:
    PermissionDenied, InvalidArgument, NotFound: as `catalog.changes.users`; nothing was changed.
    """
    door.allow("manage users")
    if password is not None:
        change = replace(change, password_hash=hash_password(check_password(password)))
    now = warehouse.clock()
    with door.watched(f"user:{user_id}"):
        catalog = warehouse.catalog.change(lambda before: alter_user(before, user_id, change, door.principal.role, now))
    door.audit.note(door.principal, "ALTER_USER", f"user:{user_id}", _described(change))
    return find_user(catalog, user_id)


def remove_user(warehouse: Warehouse, door: Door, user_id: str) -> None:
    """Raises:
    PermissionDenied, NotFound: as `catalog.changes.users`; nothing was changed.
    """
    door.allow("manage users")
    now = warehouse.clock()
    with door.watched(f"user:{user_id}"):
        warehouse.catalog.change(lambda before: drop_user(before, user_id, door.principal.role, now))
    door.audit.note(door.principal, "DROP_USER", f"user:{user_id}")


def _described(change: UserChange) -> str:
    """What was set, in words that contain no secret."""
    said = {
        "password": change.password_hash and REDACTED,
        "role": change.role,
        "email": change.email,
        "storage_mode": change.storage_mode,
        "storage_id": "NULL" if change.clear_storage else change.storage_id,
    }
    return ", ".join(f"{name} {value}" for name, value in said.items() if value)
