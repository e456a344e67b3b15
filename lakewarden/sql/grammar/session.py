"""Parses statements of a session: how it reads, its blocks, and SHOW and DESCRIBE; and those about the whole warehouse."""

from __future__ import annotations

from sqlglot.tokenizer_core import TokenType

from lakewarden.base.commit_metadata import parsed_metadata
from lakewarden.catalog.dynamic_declaration import PREFIX, check_session_option
from lakewarden.sql.grammar.places import in_namespace
from lakewarden.sql.grammar.tables import partition_spec
from lakewarden.sql.reader import StatementReader
from lakewarden.sql.statements.base import Statement
from lakewarden.sql.statements.definitions import (
    AlterWarehouse,
    DescribeExtended,
    ShowEngines,
    ShowPipelines,
    ShowRules,
    ShowSettings,
)
from lakewarden.sql.statements.others import Forbidden
from lakewarden.sql.statements.session import (
    Begin,
    Commit,
    Describe,
    DescribeHistory,
    ReleaseSavepoint,
    Rollback,
    Savepoint,
    SetFreshness,
    SetMetadata,
    SetTableStorage,
    Show,
    ShowMetadata,
    ShowStats,
    ShowTables,
)
from lakewarden.tables.freshness import check_freshness


def set_freshness(read: StatementReader) -> Statement:
    """Raises:
    InvalidArgument: there is no such freshness.
    """
    if not (read.symbol(TokenType.EQ) or read.word("TO")):
        raise read.failure("expected =")
    return SetFreshness(check_freshness(read.name_or_text("a freshness").lower()))


def set_metadata(read: StatementReader) -> Statement:
    """Raises:
    InvalidArgument: it is no JSON object, or too large.
    """
    if not (read.symbol(TokenType.EQ) or read.word("TO")):
        raise read.failure("expected =")
    return SetMetadata("" if read.word("DEFAULT") else parsed_metadata(read.text("a JSON object")))


def reset_metadata(_: StatementReader) -> Statement:
    return SetMetadata("")


def show_metadata(_: StatementReader) -> Statement:
    return ShowMetadata()


def set_table_storage(read: StatementReader) -> Statement:
    """Reads what follows SET, where it is `'table-storage.key' = 'value'`, quoted or not; any other SET is forbidden.

    Raises:
        InvalidArgument: the option does not exist, or cannot have this value.
    """
    start = read.here
    if read.at_text:
        key = read.text("an option")
    else:
        while not (read.over or read._match(TokenType.EQ, advance=False)):
            read._advance()
        key = "".join(read.since(start).split())
    if not key.lower().startswith(PREFIX):
        read.rest()
        return Forbidden("SET")
    if not read.symbol(TokenType.EQ):
        raise read.failure(f"expected = after {key}")
    name = key[len(PREFIX) :]
    value = read.text("a value") if read.at_text else read.rest()
    check_session_option(name, value)
    return SetTableStorage(name, value)


# Parses the statements of transaction blocks, as PostgreSQL writes them.
_LEVELS = (("READ", "COMMITTED"), ("READ", "UNCOMMITTED"), ("REPEATABLE", "READ"), ("SERIALIZABLE",))
"""PostgreSQL's levels of isolation; a block is READ COMMITTED whatever it names (docs/sql.md)."""


def begin(read: StatementReader) -> Statement:
    """Reads what follows BEGIN or START."""
    _noise(read)
    read_only = False
    while not read.over:
        read_only = _mode(read) or read_only
        read.symbol(TokenType.COMMA)
    return Begin(read_only)


def _mode(read: StatementReader) -> bool:
    """One mode of a transaction. Returns whether it is READ ONLY."""
    if read.word("READ", "ONLY"):
        return True
    if read.word("ISOLATION", "LEVEL"):
        if not any(read.word(*level) for level in _LEVELS):
            raise read.failure("expected a level of isolation, such as READ COMMITTED")
    elif not (read.word("READ", "WRITE") or read.word("NOT", "DEFERRABLE") or read.word("DEFERRABLE")):
        raise read.failure("expected READ ONLY, READ WRITE or ISOLATION LEVEL")
    return False


def commit(read: StatementReader) -> Statement:
    """Reads what follows COMMIT or END."""
    _noise(read)
    return Commit()


def rollback(read: StatementReader) -> Statement:
    """Reads what follows ROLLBACK or ABORT."""
    _noise(read)
    if not read.word("TO"):
        return Rollback()
    read.word("SAVEPOINT")
    return Rollback(read.name("a savepoint"))


def savepoint(read: StatementReader) -> Statement:
    return Savepoint(read.name("a savepoint"))


def release(read: StatementReader) -> Statement:
    read.word("SAVEPOINT")
    return ReleaseSavepoint(read.name("a savepoint"))


def _noise(read: StatementReader) -> None:
    if not read.word("TRANSACTION"):
        read.word("WORK")


# Parses SHOW and DESCRIBE.
_IN_NAMESPACE = {"TABLES": ShowTables, "RULES": ShowRules, "PIPELINES": ShowPipelines}


def show(read: StatementReader) -> Statement:
    match read.one_of(
        "NAMESPACES", "STORAGES", "MANIFEST", "EXPORT", "TABLES", "STATS FOR TABLE", "ENGINES", "RULES", "PIPELINES", "SETTINGS"
    ):
        case "TABLES" | "RULES" | "PIPELINES" as what:
            return _IN_NAMESPACE[what](in_namespace(read))
        case "STATS FOR TABLE":
            return ShowStats(read.ref())
        case "ENGINES":
            return ShowEngines()
        case "SETTINGS":
            return ShowSettings()
        case "NAMESPACES":
            return Show("namespaces")
        case "STORAGES":
            return Show("storages")
        case "MANIFEST":
            return Show("manifest")
        case _:
            return Show("export")


def describe(read: StatementReader) -> Statement:
    if read.word("HISTORY") and not read.over and not read._match(TokenType.DOT, advance=False):
        table = read.ref()
        return DescribeHistory(table, read.whole("a limit") if read.word("LIMIT") else None)
    if read._prev.text.upper() == "HISTORY":  # a table of that name
        read._retreat(read._index - 1)
    if read.word("TABLE", "EXTENDED"):
        table = read.ref()
        return DescribeExtended(table, partition_spec(read) if read.word("PARTITION") else None)
    read.word("TABLE")
    table = read.ref()
    return Describe(table, read.word("HISTORY"))


def alter_warehouse(read: StatementReader) -> Statement:
    """Reads what follows ALTER WAREHOUSE."""
    read.expect("SET")
    return AlterWarehouse(read.pairs())
