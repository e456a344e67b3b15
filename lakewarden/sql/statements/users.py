"""Users (kalamdb.md 1.8 and 1.9)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, cast, get_args

from lakewarden.catalog.access import parse_role
from lakewarden.catalog.changes.users import UserChange
from lakewarden.catalog.model import StorageMode, User
from lakewarden.errors import InvalidArgument
from lakewarden.maintenance.admin.users import change_user, remove_user
from lakewarden.maintenance.admin.users import create_user as make_user
from lakewarden.sql.context import Context
from lakewarden.sql.reader import StatementReader
from lakewarden.sql.results import StatementDone
from lakewarden.sql.rights import in_warehouse
from lakewarden.sql.statement import Grammar, Statement, StatementSpec, registered
from lakewarden.sql.statements.clauses import if_exists


@dataclass(frozen=True)
class CreateUser(Statement):
    """One way to log in: a password, `oauth` with its JSON, or `internal`."""

    name: str
    auth: Literal["password", "oauth", "internal"]
    secret: str = field(repr=False)
    role: str
    email: str | None = None
    storage_mode: str | None = None
    storage_id: str | None = None


@dataclass(frozen=True)
class AlterUser(Statement):
    """Sets one field; `value` is None for NULL."""

    name: str
    field: _Field
    value: str | None

    def __repr__(self) -> str:
        return f"AlterUser(name={self.name!r}, field={self.field!r})"  # no secret in a trace


@dataclass(frozen=True)
class DropUser(Statement):
    name: str
    if_exists: bool = False


_Field = Literal["password", "role", "email", "storage_mode", "storage_id"]


def read_create_user(read: StatementReader) -> Statement:
    name = read.name_or_text("a user")
    read.expect("WITH")
    auth: Literal["password", "oauth", "internal"]
    match read.one_of("PASSWORD", "OAUTH", "INTERNAL"):
        case "PASSWORD":
            auth, secret = "password", read.text("the password")
        case "OAUTH":
            auth, secret = "oauth", read.text("the identity as JSON") if read.at_text else ""
        case _:
            auth, secret = "internal", ""
    read.expect("ROLE")
    role = read.name_or_text("a role")
    fields: dict[str, str] = {}
    while not read.over:
        key = read.one_of("EMAIL", "STORAGE_MODE", "STORAGE_ID")
        if key.lower() in fields:
            raise InvalidArgument(f"CREATE USER {name}: {key} is given twice")
        fields[key.lower()] = _read_value(read, key)
    return CreateUser(name, auth, secret, role, **fields)


def _read_value(read: StatementReader, key: str) -> str:
    return read.text("the address") if key == "EMAIL" else read.name_or_text(f"the {key}")


def read_alter_user(read: StatementReader) -> Statement:
    name = read.name_or_text("a user")
    read.expect("SET")
    key = read.one_of(*(field.upper() for field in get_args(_Field)))
    if key == "STORAGE_ID" and read.word("NULL"):
        return AlterUser(name, "storage_id", None)
    value = read.text("the password") if key == "PASSWORD" else _read_value(read, key)
    return AlterUser(name, cast("_Field", key.lower()), value)


def create_user(context: Context, statement: CreateUser) -> StatementDone:
    now = context.warehouse.clock()
    user = User(
        statement.name,
        parse_role(statement.role),
        statement.auth,
        created_at=now,
        updated_at=now,
        auth_data=_identity(statement.secret) if statement.auth == "oauth" else None,
        email=statement.email,
        storage_mode=_storage_mode(statement.storage_mode or "table"),
        storage_id=statement.storage_id,
    )
    make_user(context.warehouse, context.door, user, statement.secret if statement.auth == "password" else None)
    return StatementDone(f"user {statement.name} created")


def _identity(text: str) -> str | None:
    """Checks an OAUTH identity, which is optional. No message repeats it.

    Raises:
        InvalidArgument: it is not a JSON object.
    """
    if not text:
        return None
    try:
        said = json.loads(text)
    except ValueError:
        said = None
    if not isinstance(said, dict):
        raise InvalidArgument("""OAUTH takes a JSON object, as in '{"provider": "google", "subject": "1234"}'""")
    return text


def alter_user(context: Context, statement: AlterUser) -> StatementDone:
    value = statement.value
    password = value if statement.field == "password" else None
    change_user(context.warehouse, context.door, statement.name, _user_change(statement.field, value), password)
    return StatementDone(f"user {statement.name} altered")


def _user_change(field: str, value: str | None) -> UserChange:
    match field:
        case "role":
            return UserChange(role=parse_role(value or ""))
        case "email":
            return UserChange(email=value)
        case "storage_mode":
            return UserChange(storage_mode=_storage_mode(value or ""))
        case "storage_id":
            return UserChange(clear_storage=True) if value is None else UserChange(storage_id=value)
        case _:
            return UserChange()


def _storage_mode(text: str) -> StorageMode:
    match text.lower():
        case "table":
            return "table"
        case "region":
            return "region"
        case _:
            raise InvalidArgument(f"STORAGE_MODE {text!r} must be table or region")


def drop_user(context: Context, statement: DropUser) -> StatementDone:
    user = context.catalog.users.get(statement.name)
    if statement.if_exists and (user is None or user.deleted_at is not None):
        return StatementDone(f"skipped: there is no user {statement.name}")
    remove_user(context.warehouse, context.door, statement.name)
    return StatementDone(f"user {statement.name} dropped")


ROWS = registered(
    StatementSpec("CREATE USER u WITH PASSWORD '…' ROLE r […]", "creates a user", in_warehouse("manage users"), create_user),
    StatementSpec("ALTER USER u SET …", "changes a user", in_warehouse("manage users"), alter_user),
    StatementSpec(
        "DROP USER [IF EXISTS] u",
        "removes a user from the catalog; the rows stay",
        in_warehouse("manage users"),
        drop_user,
    ),
)

GRAMMARS: Mapping[str, Grammar] = {
    "CREATE USER": read_create_user,
    "ALTER USER": read_alter_user,
    "DROP USER": lambda read: DropUser(if_exists=if_exists(read), name=read.name_or_text("a user")),
}
