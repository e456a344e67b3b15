"""The rows of statements of a session: blocks, those that read and change rows, and those that show."""

from __future__ import annotations

from collections.abc import Mapping

from lakewarden.sql.grammar import rows, session, upkeep
from lakewarden.sql.results import AffectedRows, Events, ResultRows, StatementDone
from lakewarden.sql.specs.spec import (
    AuditEntrySpec,
    Grammar,
    InWarehouse,
    Requirement,
    StatementSpec,
    TableRight,
)
from lakewarden.sql.statements.base import Statement
from lakewarden.sql.statements.rows import Delete, Explain, Insert, Merge, Overwrite, Query, Subscribe, Truncate, Update
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
    Show,
    ShowMetadata,
    ShowStats,
    ShowTables,
)


def _cold(what: str) -> Requirement:
    return Requirement("cold tier", what)


_SELECTS: Mapping[str, Grammar] = dict.fromkeys(("SELECT", "WITH", "FROM", "VALUES", "TABLE"), rows.query)
_SHOW: Mapping[str, Grammar] = {"SHOW": session.show}
_DESCRIBE: Mapping[str, Grammar] = {"DESCRIBE": session.describe, "DESC": session.describe}
_INSERT: Mapping[str, Grammar] = {"INSERT": rows.insert}


ROWS: Mapping[type[Statement], StatementSpec] = {
    Begin: StatementSpec(
        "BEGIN [READ ONLY]",
        "begins a block: what it writes is kept, and written by COMMIT as a whole",
        {"BEGIN": session.begin, "START TRANSACTION": session.begin},
        "read",
        "session.begin",
        StatementDone,
    ),
    Commit: StatementSpec(
        "COMMIT",
        "writes what the block kept, all of it or nothing, and ends the block",
        {"COMMIT": session.commit, "END": session.commit},
        "read",
        "session.commit",
        StatementDone,
    ),
    Rollback: StatementSpec(
        "ROLLBACK [TO SAVEPOINT s]",
        "drops what the block kept, and ends it; or what it kept behind the savepoint",
        {"ROLLBACK": session.rollback, "ABORT": session.rollback},
        "read",
        "session.rollback",
        StatementDone,
    ),
    Savepoint: StatementSpec(
        "SAVEPOINT s", "marks a place in the block", {"SAVEPOINT": session.savepoint}, "read", "session.savepoint", StatementDone
    ),
    ReleaseSavepoint: StatementSpec(
        "RELEASE SAVEPOINT s", "forgets such a place", {"RELEASE": session.release}, "read", "session.release", StatementDone
    ),
    SetFreshness: StatementSpec(
        "SET freshness = 'strong', 'eventual' or 'oltp_only'",
        "chooses the rows that the session's queries see: all, those in Delta, or those in the write log alone",
        {"SET FRESHNESS": session.set_freshness},
        "read",
        "session.set_freshness",
        StatementDone,
    ),
    SetMetadata: StatementSpec(
        "SET commit_metadata = '{…}', RESET commit_metadata",
        "chooses the JSON object that the commits of what the session writes carry",
        {
            "SET COMMIT_METADATA": session.set_metadata,
            "SET SESSION COMMIT_METADATA": session.set_metadata,
            "RESET COMMIT_METADATA": session.reset_metadata,
        },
        "read",
        "session.set_metadata",
        StatementDone,
    ),
    ShowMetadata: StatementSpec(
        "SHOW commit_metadata",
        "shows that object; empty where there is none",
        {"SHOW COMMIT_METADATA": session.show_metadata},
        "read",
        "session.show_metadata",
        ResultRows,
    ),
    Insert: StatementSpec(
        "INSERT INTO t [(…)] VALUES … or SELECT … [ON CONFLICT [(…)] DO NOTHING or DO UPDATE SET … [WHERE …]]",
        "adds rows",
        _INSERT,
        TableRight("write"),
        "insert.insert",
        AffectedRows,
        requires=Requirement("updates", "ON CONFLICT", lambda one: one.conflict is not None),
    ),
    Overwrite: StatementSpec(
        "INSERT OVERWRITE [TABLE] t [PARTITION (c = value, …)] [(…)] VALUES … or SELECT …",
        "replaces all rows; of a USER table those of the session's user, of a dynamic table the partitions of its rows",
        _INSERT,
        TableRight("write"),
        "insert.overwrite",
        AffectedRows,
        requires=Requirement("updates", "INSERT OVERWRITE"),
    ),
    Update: StatementSpec(
        "UPDATE t SET … WHERE …",
        "changes rows",
        {"UPDATE": rows.update},
        TableRight("write"),
        "change.update",
        AffectedRows,
        requires=Requirement("updates", "UPDATE"),
    ),
    Delete: StatementSpec(
        "DELETE FROM t WHERE …",
        "removes rows",
        {"DELETE": rows.delete},
        TableRight("write"),
        "change.delete",
        AffectedRows,
    ),
    Truncate: StatementSpec(
        "TRUNCATE [TABLE] t",
        "removes all rows; of a USER table those of the session's user",
        {"TRUNCATE": rows.truncate},
        TableRight("write"),
        "insert.truncate",
        AffectedRows,
        requires=Requirement("updates", "TRUNCATE"),
        audited=AuditEntrySpec("TRUNCATE_TABLE", "table", "table"),
    ),
    Merge: StatementSpec(
        "MERGE INTO t USING (VALUES …), (SELECT …) or a table AS s ON t.key = s.…"
        " [WHEN MATCHED [AND …] THEN UPDATE SET … or *, DELETE or DO NOTHING]"
        " [WHEN NOT MATCHED [AND …] THEN INSERT (…) VALUES (…) or *, or DO NOTHING]",
        "changes, removes and adds rows by those of a source",
        {"MERGE": rows.merge},
        TableRight("write"),
        "merge.merge",
        AffectedRows,
        requires=Requirement("updates", "MERGE"),
    ),
    Query: StatementSpec(
        "SELECT … [FROM t VERSION AS OF v or TIMESTAMP AS OF 'text' …]",
        "reads rows, or those of a version of the past",
        _SELECTS,
        "read",
        "session.query",
        ResultRows,
    ),
    Explain: StatementSpec(
        "EXPLAIN SELECT …",
        "shows how a query would run",
        {"EXPLAIN": rows.explain},
        "read",
        "session.explain",
        ResultRows,
    ),
    Subscribe: StatementSpec(
        "SUBSCRIBE TO t [WHERE …] [OPTIONS (…)] or SUBSCRIBE TO SELECT … FROM t [WHERE …] [OPTIONS (…)]",
        "returns the events that a subscription begins with",
        {"SUBSCRIBE": upkeep.subscribe},
        "read",
        "subscribe.peek",
        Events,
    ),
    Show: StatementSpec(
        "SHOW NAMESPACES, STORAGES, MANIFEST or EXPORT",
        "lists what exists",
        _SHOW,
        InWarehouse("look at what exists"),
        "show.show",
        ResultRows,
    ),
    ShowTables: StatementSpec(
        "SHOW TABLES [IN n]",
        "lists tables and views",
        _SHOW,
        InWarehouse("look at what exists"),
        "show.show_tables",
        ResultRows,
    ),
    ShowStats: StatementSpec(
        "SHOW STATS FOR TABLE t",
        "counts the rows and files of the session's scope",
        _SHOW,
        TableRight("read"),
        "show.show_stats",
        ResultRows,
    ),
    Describe: StatementSpec(
        "DESCRIBE t [HISTORY]",
        "lists a table's columns; with HISTORY their versions",
        _DESCRIBE,
        "describe",
        "show.describe",
        ResultRows,
    ),
    DescribeHistory: StatementSpec(
        "DESCRIBE HISTORY t [LIMIT n]",
        "lists the commits of the session's scope, newest first",
        _DESCRIBE,
        TableRight("read"),
        "show.history",
        ResultRows,
        requires=_cold("DESCRIBE HISTORY"),
    ),
}
