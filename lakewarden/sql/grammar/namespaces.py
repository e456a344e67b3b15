"""Parses statements about namespaces (kalamdb.md 1.3)."""

from __future__ import annotations

from lakewarden.sql.grammar.tables import if_exists, if_not_exists
from lakewarden.sql.reader import StatementReader
from lakewarden.sql.statements.base import Statement
from lakewarden.sql.statements.namespaces import (
    AlterNamespace,
    CreateNamespace,
    DisableEngine,
    DropNamespace,
    EnableEngine,
    UseNamespace,
)


def create_namespace(read: StatementReader) -> Statement:
    missing = if_not_exists(read)
    return CreateNamespace(read.namespace(), missing)


def drop_namespace(read: StatementReader) -> Statement:
    there = if_exists(read)
    name = read.namespace()
    return DropNamespace(name, there, read.word("CASCADE"))


def alter_namespace(read: StatementReader) -> Statement:
    name = read.namespace()
    read.expect("SET", "DESCRIPTION")
    return AlterNamespace(name, read.text("a description"))


def use(read: StatementReader) -> Statement:
    """Reads what follows USE."""
    read.word("NAMESPACE")
    return UseNamespace(read.namespace())


def enable_engine(read: StatementReader) -> Statement:
    name = read.namespace()
    return EnableEngine(name, read.text("the settings") if read.word("SETTINGS") else None)


def disable_engine(read: StatementReader) -> Statement:
    return DisableEngine(read.namespace())


def in_namespace(read: StatementReader) -> str | None:
    if not (read.word("IN") or read.word("FROM")):
        return None
    read.word("NAMESPACE")
    return read.namespace()
