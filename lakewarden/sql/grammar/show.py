"""Parses SHOW and DESCRIBE."""

from __future__ import annotations

from sqlglot.tokenizer_core import TokenType

from lakewarden.sql.grammar.namespaces import in_namespace
from lakewarden.sql.grammar.partitions import partition_spec
from lakewarden.sql.reader import StatementReader
from lakewarden.sql.statements.base import Statement
from lakewarden.sql.statements.dynamic import DescribeExtended
from lakewarden.sql.statements.namespaces import ShowEngines
from lakewarden.sql.statements.pipelines import ShowPipelines, ShowRules
from lakewarden.sql.statements.show import Describe, DescribeHistory, Show, ShowStats, ShowTables
from lakewarden.sql.statements.warehouse import ShowSettings

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
