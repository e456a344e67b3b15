"""Parses statements about users, and EXECUTE AS (kalamdb.md 1.8 and 1.9)."""

from __future__ import annotations

from typing import Literal

from lakewarden.errors import InvalidArgument
from lakewarden.sql.grammar.tables import if_exists
from lakewarden.sql.reader import StatementReader
from lakewarden.sql.statements.base import Statement
from lakewarden.sql.statements.users import AlterUser, CreateUser, DropUser

_Field = Literal["password", "role", "email", "storage_mode", "storage_id"]

_FIELDS: dict[str, _Field] = {
    "PASSWORD": "password",
    "ROLE": "role",
    "EMAIL": "email",
    "STORAGE_MODE": "storage_mode",
    "STORAGE_ID": "storage_id",
}


def create_user(read: StatementReader) -> Statement:
    name = read.name_or_text("a user")
    read.expect("WITH")
    auth: Literal["password", "oauth", "internal"]
    match read.one_of("PASSWORD", "OAUTH", "INTERNAL"):
        case "PASSWORD":
            auth, secret = "password", read.text("the password")
        case "OAUTH":
            auth, secret = "oauth", _identity(read)
        case _:
            auth, secret = "internal", ""
    read.expect("ROLE")
    role = read.name_or_text("a role")
    fields: dict[str, str] = {}
    while not read.over:
        key = read.one_of("EMAIL", "STORAGE_MODE", "STORAGE_ID")
        if key.lower() in fields:
            raise InvalidArgument(f"CREATE USER {name}: {key} is given twice")
        fields[key.lower()] = _value(read, key)
    return CreateUser(name, auth, secret, role, **fields)


def _value(read: StatementReader, key: str) -> str:
    return read.text("the address") if key == "EMAIL" else read.name_or_text(f"the {key}")


def alter_user(read: StatementReader) -> Statement:
    name = read.name_or_text("a user")
    read.expect("SET")
    key = read.one_of(*_FIELDS)
    if key == "STORAGE_ID" and read.word("NULL"):
        return AlterUser(name, "storage_id", None)
    value = read.text("the password") if key == "PASSWORD" else _value(read, key)
    return AlterUser(name, _FIELDS[key], value)


def drop_user(read: StatementReader) -> Statement:
    there = if_exists(read)
    return DropUser(read.name_or_text("a user"), there)


def _identity(read: StatementReader) -> str:
    """Reads the identity; it is optional."""
    return read.text("the identity as JSON") if read.at_text else ""
