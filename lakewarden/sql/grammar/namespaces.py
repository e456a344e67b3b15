"""Parses statements about namespaces (kalamdb.md 1.3)."""

from __future__ import annotations

from lakewarden.sql.grammar.tables import if_exists, if_not_exists
from lakewarden.sql.reader import Reader
from lakewarden.sql.statements.base import Statement
from lakewarden.sql.statements.namespaces import (
    AlterNamespace,
    CreateNamespace,
    DisableEngine,
    DropNamespace,
    EnableEngine,
    UseNamespace,
)


def create_namespace(read: Reader) -> Statement:
    missing = if_not_exists(read)
    return CreateNamespace(read.namespace(), missing)


def drop_namespace(read: Reader) -> Statement:
    there = if_exists(read)
    name = read.namespace()
    return DropNamespace(name, there, read.word("CASCADE"))


def alter_namespace(read: Reader) -> Statement:
    name = read.namespace()
    read.expect("SET", "DESCRIPTION")
    return AlterNamespace(name, read.text("a description"))


def use(read: Reader) -> Statement:
    """Reads what follows USE."""
    read.word("NAMESPACE")
    return UseNamespace(read.namespace())


def enable_engine(read: Reader) -> Statement:
    name = read.namespace()
    return EnableEngine(name, read.text("the settings") if read.word("SETTINGS") else None)


def disable_engine(read: Reader) -> Statement:
    return DisableEngine(read.namespace())


def in_namespace(read: Reader) -> str | None:
    if not (read.word("IN") or read.word("FROM")):
        return None
    read.word("NAMESPACE")
    return read.namespace()
