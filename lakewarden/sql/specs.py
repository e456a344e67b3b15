"""The properties of each SQL statement, in one table that the parser, the gate, the execution and the reference read."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from lakewarden.sql.grammar import (
    blocks,
    merge,
    namespaces,
    pipelines,
    rows,
    session,
    show,
    storages,
    tables,
    upkeep,
    users,
    warehouse,
)
from lakewarden.sql.results import AffectedRows, Events, ResultRows, StartedJobs, StatementDone
from lakewarden.sql.statement_spec import (
    AuditEntrySpec,
    Grammar,
    InWarehouse,
    Requirement,
    ScopesRight,
    StatementSpec,
    TableRight,
    operation_right,
)
from lakewarden.sql.statements.base import Statement
from lakewarden.sql.statements.blocks import Begin, Commit, ReleaseSavepoint, Rollback, Savepoint
from lakewarden.sql.statements.dynamic import CompactTable, DescribeExtended, DropPartition
from lakewarden.sql.statements.namespaces import (
    AlterNamespace,
    CreateNamespace,
    DisableEngine,
    DropNamespace,
    EnableEngine,
    ShowEngines,
    UseNamespace,
)
from lakewarden.sql.statements.others import ExecuteAs
from lakewarden.sql.statements.pipelines import AlterRule, CreateFromTemplate, DropPipeline, ShowPipelines, ShowRules
from lakewarden.sql.statements.rows import Delete, Explain, Insert, Merge, Overwrite, Query, Subscribe, Truncate, Update
from lakewarden.sql.statements.session import SetFreshness, SetMetadata, SetTableStorage, ShowMetadata
from lakewarden.sql.statements.show import Describe, DescribeHistory, Show, ShowStats, ShowTables
from lakewarden.sql.statements.storages import AlterStorage, CheckStorage, CreateStorage, DropStorage
from lakewarden.sql.statements.tables import (
    AlterTable,
    CreateTable,
    CreateTableAs,
    CreateTemporaryTable,
    CreateView,
    DropTable,
    DropTemporaryTable,
    DropView,
)
from lakewarden.sql.statements.upkeep import (
    ApplyPlan,
    ExportUserData,
    KillJob,
    KillLiveQuery,
    MoveTable,
    Optimize,
    Restore,
    StorageJob,
    Vacuum,
)
from lakewarden.sql.statements.users import AlterUser, CreateUser, DropUser
from lakewarden.sql.statements.warehouse import AlterWarehouse, ShowSettings


def _table_words(verb: str) -> dict[str, str | None]:
    """CREATE TABLE, and CREATE USER TABLE and so on, each with the type that it names."""
    return {f"{verb} TABLE": None, **{f"{verb} {kind} TABLE": kind for kind in tables.TYPES}}


_CREATE_TABLE: Mapping[str, Grammar] = {
    words: partial(tables.create_table, prefix=kind)
    for words, kind in (_table_words("CREATE") | {"CREATE DYNAMIC TABLE": tables.DYNAMIC}).items()
}


_TEMPORARY = ("TEMPORARY", "TEMP")
_CREATE_TEMPORARY: Mapping[str, Grammar] = {
    f"CREATE {word} {kind}TABLE": partial(tables.create_temporary_table, prefix=prefix)
    for word in _TEMPORARY
    for kind, prefix in (("", None), ("DYNAMIC ", tables.DYNAMIC))
}

_ALTER_TABLE: Mapping[str, Grammar] = dict.fromkeys(_table_words("ALTER"), tables.alter_table)


def _cold(what: str) -> Requirement:
    return Requirement("cold tier", what)


_SELECTS: Mapping[str, Grammar] = dict.fromkeys(("SELECT", "WITH", "FROM", "VALUES", "TABLE"), rows.query)
_SHOW: Mapping[str, Grammar] = {"SHOW": show.show}
_DESCRIBE: Mapping[str, Grammar] = {"DESCRIBE": show.describe, "DESC": show.describe}
_INSERT: Mapping[str, Grammar] = {"INSERT": rows.insert}
_STORAGE: Mapping[str, Grammar] = {"STORAGE": storages.storage}
_KILL: Mapping[str, Grammar] = {"KILL": upkeep.kill}

STATEMENTS: Mapping[type[Statement], StatementSpec] = {
    CreateTable: StatementSpec(
        "CREATE [USER, SHARED, STREAM or DYNAMIC] TABLE [IF NOT EXISTS] t (c type [NOT NULL] [DEFAULT e] [PRIMARY KEY], …,"
        " [PRIMARY KEY (…)]) [PARTITION BY (c, …)] [WITH (KEY = value, …)]",
        "creates a table",
        _CREATE_TABLE,
        "create",
        "define.create_table",
        StatementDone,
        audited=AuditEntrySpec("CREATE_TABLE", "table", "table"),
    ),
    CreateTableAs: StatementSpec(
        "CREATE [USER or SHARED] TABLE [IF NOT EXISTS] t [PRIMARY KEY (…)] [PARTITION BY (…)] [WITH (…)] AS SELECT …",
        "creates a table with the columns and rows of a query",
        _CREATE_TABLE,
        "create",
        "create_as.create_table_as",
        StatementDone,
        audited=AuditEntrySpec("CREATE_TABLE", "table", "table"),
    ),
    CreateFromTemplate: StatementSpec(
        "CREATE SHARED TABLE [IF NOT EXISTS] t FROM TEMPLATE name [PRIMARY KEY (…)] [PARTITION BY (…)] [WITH (KEY = value, …)]",
        "creates a table that uploaded objects fill, and give its schema",
        _CREATE_TABLE,
        "create",
        "pipelines.create_from_template",
        StatementDone,
        audited=AuditEntrySpec("CREATE_TABLE", "table", "table"),
    ),
    DropPipeline: StatementSpec(
        "DROP PIPELINE [IF EXISTS] p",
        "removes a pipeline, its rule, and the record of what it took; its table stays",
        {"DROP PIPELINE": pipelines.drop_pipeline},
        "pipeline",
        "pipelines.drop_pipeline",
        StatementDone,
        audited=AuditEntrySpec("DROP_PIPELINE", "pipeline", "pipeline"),
    ),
    AlterRule: StatementSpec(
        "ALTER RULE r SET GLOBS = ('…', …), EXCLUDES = (…), MIME_TYPES = (…), MIN_SIZE = n, MAX_SIZE = n,"
        " ENABLED = true or false",
        "changes which objects a pipeline takes",
        {"ALTER RULE": pipelines.alter_rule},
        "pipeline",
        "pipelines.alter_rule",
        StatementDone,
        audited=AuditEntrySpec("ALTER_RULE", "rule", "rule"),
    ),
    ShowRules: StatementSpec(
        "SHOW RULES [IN n]",
        "lists the rules of pipelines",
        _SHOW,
        InWarehouse("look at what exists"),
        "pipelines.show_rules",
        ResultRows,
    ),
    ShowPipelines: StatementSpec(
        "SHOW PIPELINES [IN n]",
        "lists pipelines, with the place where objects are uploaded",
        _SHOW,
        InWarehouse("look at what exists"),
        "pipelines.show_pipelines",
        ResultRows,
    ),
    AlterTable: StatementSpec(
        "ALTER TABLE t ADD [COLUMN] [IF NOT EXISTS] c type […], DROP [COLUMN] c, RENAME COLUMN c TO d,"
        " MODIFY COLUMN c type [NOT NULL], ALTER COLUMN c SET or DROP NOT NULL or DEFAULT,"
        " SET TBLPROPERTIES (…) or SET ACCESS LEVEL …",
        "changes a table's columns or options",
        _ALTER_TABLE,
        TableRight("alter"),
        "define.alter_table",
        StatementDone,
        audited=AuditEntrySpec("ALTER_TABLE", "table", "table"),
    ),
    DropTable: StatementSpec(
        "DROP [USER, SHARED or STREAM] TABLE [IF EXISTS] t [DRY RUN]",
        "removes a table with its data; returns when it is gone",
        {words: partial(tables.drop_table, prefix=kind) for words, kind in _table_words("DROP").items()},
        operation_right("drop"),
        "define.drop_table",
        StatementDone | ResultRows,
        audited=AuditEntrySpec("DROP_TABLE", "table", "table"),
    ),
    CreateTemporaryTable: StatementSpec(
        "CREATE TEMPORARY [DYNAMIC] TABLE [IF NOT EXISTS] t (c type […], …, [PRIMARY KEY (…)]) [WITH (KEY = value, …)]",
        "creates a table of the session alone, which takes INSERT and SELECT and is gone with the session",
        _CREATE_TEMPORARY,
        "read",
        "temporary.create_temporary_table",
        StatementDone,
    ),
    DropTemporaryTable: StatementSpec(
        "DROP TEMPORARY TABLE [IF EXISTS] t",
        "removes a table of the session",
        {f"DROP {word} TABLE": tables.drop_temporary_table for word in _TEMPORARY},
        "read",
        "temporary.drop_temporary_table",
        StatementDone,
    ),
    CreateNamespace: StatementSpec(
        "CREATE NAMESPACE [IF NOT EXISTS] n",
        "creates a namespace",
        {"CREATE NAMESPACE": namespaces.create_namespace},
        InWarehouse("manage namespaces"),
        "define.create_namespace",
        StatementDone,
        audited=AuditEntrySpec("CREATE_NAMESPACE", "namespace", "name"),
    ),
    AlterNamespace: StatementSpec(
        "ALTER NAMESPACE n SET DESCRIPTION '…'",
        "describes a namespace",
        {"ALTER NAMESPACE": namespaces.alter_namespace},
        InWarehouse("manage namespaces"),
        "define.alter_namespace",
        StatementDone,
        audited=AuditEntrySpec("ALTER_NAMESPACE", "namespace", "name"),
    ),
    DropNamespace: StatementSpec(
        "DROP NAMESPACE [IF EXISTS] n [CASCADE]",
        "removes a namespace; with CASCADE its tables too",
        {"DROP NAMESPACE": namespaces.drop_namespace},
        InWarehouse("manage namespaces"),
        "define.drop_namespace",
        StatementDone,
        audited=AuditEntrySpec("DROP_NAMESPACE", "namespace", "name"),
    ),
    UseNamespace: StatementSpec(
        "USE n",
        "chooses the session's namespace",
        {"USE": namespaces.use, "SET NAMESPACE": namespaces.use},
        InWarehouse("look at what exists"),
        "define.use_namespace",
        StatementDone,
    ),
    EnableEngine: StatementSpec(
        "ENABLE ENGINE n [SETTINGS '{…}']",
        "enables the engine of a namespace",
        {"ENABLE ENGINE": namespaces.enable_engine},
        InWarehouse("manage namespaces"),
        "engines.enable_engine",
        StatementDone,
        audited=AuditEntrySpec("ENABLE_ENGINE", "namespace", "name"),
    ),
    DisableEngine: StatementSpec(
        "DISABLE ENGINE n",
        "disables the engine of a namespace: its tables take no reads, writes and jobs; nothing is deleted",
        {"DISABLE ENGINE": namespaces.disable_engine},
        InWarehouse("manage namespaces"),
        "engines.disable_engine",
        StatementDone,
        audited=AuditEntrySpec("DISABLE_ENGINE", "namespace", "name"),
    ),
    ShowEngines: StatementSpec(
        "SHOW ENGINES",
        "lists the engines of namespaces",
        _SHOW,
        InWarehouse("manage namespaces"),
        "engines.show_engines",
        ResultRows,
    ),
    DescribeExtended: StatementSpec(
        "DESCRIBE TABLE EXTENDED t [PARTITION (c = value, …)]",
        "shows the options and files of a dynamic table, or of one of its partitions",
        _DESCRIBE,
        TableRight("read"),
        "dynamic.describe_extended",
        ResultRows,
    ),
    CompactTable: StatementSpec(
        "ALTER TABLE t COMPACT",
        "flushes a dynamic table and packs its files; returns when that is done",
        _ALTER_TABLE,
        operation_right("optimize"),
        "dynamic.compact",
        StatementDone,
    ),
    DropPartition: StatementSpec(
        "ALTER TABLE t DROP [IF EXISTS] PARTITION (c = value, …)",
        "removes the rows of a dynamic table's partitions with these values",
        _ALTER_TABLE,
        TableRight("write"),
        "dynamic.drop_partition",
        AffectedRows,
        audited=AuditEntrySpec("DROP_PARTITION", "table", "table"),
    ),
    SetTableStorage: StatementSpec(
        "SET 'table-storage.key' = 'value'",
        "chooses an option of the dynamic tables that the session creates",
        {"SET": session.set_table_storage},
        "read",
        "dynamic.set_table_storage",
        StatementDone,
    ),
    Begin: StatementSpec(
        "BEGIN [READ ONLY]",
        "begins a block: what it writes is kept, and written by COMMIT as a whole",
        {"BEGIN": blocks.begin, "START TRANSACTION": blocks.begin},
        "read",
        "blocks.begin",
        StatementDone,
    ),
    Commit: StatementSpec(
        "COMMIT",
        "writes what the block kept, all of it or nothing, and ends the block",
        {"COMMIT": blocks.commit, "END": blocks.commit},
        "read",
        "blocks.commit",
        StatementDone,
    ),
    Rollback: StatementSpec(
        "ROLLBACK [TO SAVEPOINT s]",
        "drops what the block kept, and ends it; or what it kept behind the savepoint",
        {"ROLLBACK": blocks.rollback, "ABORT": blocks.rollback},
        "read",
        "blocks.rollback",
        StatementDone,
    ),
    Savepoint: StatementSpec(
        "SAVEPOINT s", "marks a place in the block", {"SAVEPOINT": blocks.savepoint}, "read", "blocks.savepoint", StatementDone
    ),
    ReleaseSavepoint: StatementSpec(
        "RELEASE SAVEPOINT s", "forgets such a place", {"RELEASE": blocks.release}, "read", "blocks.release", StatementDone
    ),
    SetFreshness: StatementSpec(
        "SET freshness = 'strong', 'eventual' or 'oltp_only'",
        "chooses the rows that the session's queries see: all, those in Delta, or those in the write log alone",
        {"SET FRESHNESS": session.set_freshness},
        "read",
        "query.set_freshness",
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
        "query.set_metadata",
        StatementDone,
    ),
    ShowMetadata: StatementSpec(
        "SHOW commit_metadata",
        "shows that object; empty where there is none",
        {"SHOW COMMIT_METADATA": session.show_metadata},
        "read",
        "query.show_metadata",
        ResultRows,
    ),
    CreateStorage: StatementSpec(
        "CREATE STORAGE s TYPE … [PATH '…'] [BUCKET '…'] [REGION '…'] [CREDENTIALS 'env:PREFIX']"
        ' [CONFIG \'{"endpoint": "…", "path_style": true}\'] […]',
        "tries a place and makes it a storage",
        {"CREATE STORAGE": storages.create_storage},
        InWarehouse("manage storages"),
        "define.create_storage",
        StatementDone,
        audited=AuditEntrySpec("CREATE_STORAGE", "storage"),
    ),
    AlterStorage: StatementSpec(
        "ALTER STORAGE s SET … '…'",
        "changes a storage",
        {"ALTER STORAGE": storages.alter_storage},
        InWarehouse("manage storages"),
        "define.alter_storage",
        StatementDone,
        audited=AuditEntrySpec("ALTER_STORAGE", "storage"),
    ),
    DropStorage: StatementSpec(
        "DROP STORAGE [IF EXISTS] s",
        "removes a storage that no table uses",
        {"DROP STORAGE": storages.drop_storage},
        InWarehouse("manage storages"),
        "define.drop_storage",
        StatementDone,
        audited=AuditEntrySpec("DROP_STORAGE", "storage"),
    ),
    CheckStorage: StatementSpec(
        "STORAGE CHECK s [EXTENDED]",
        "tries a storage",
        _STORAGE,
        InWarehouse("check storages"),
        "show.check_storage",
        ResultRows,
    ),
    AlterWarehouse: StatementSpec(
        "ALTER WAREHOUSE SET (KEY = value, …)",
        "changes settings by which all processes go; the value DEFAULT sets one back",
        {"ALTER WAREHOUSE": warehouse.alter_warehouse},
        InWarehouse("manage settings"),
        "warehouse.alter_warehouse",
        StatementDone,
    ),
    ShowSettings: StatementSpec(
        "SHOW SETTINGS",
        "lists these settings",
        _SHOW,
        InWarehouse("manage settings"),
        "warehouse.show_settings",
        ResultRows,
    ),
    CreateUser: StatementSpec(
        "CREATE USER u WITH PASSWORD '…' ROLE r […]",
        "creates a user",
        {"CREATE USER": users.create_user},
        InWarehouse("manage users"),
        "define.create_user",
        StatementDone,
    ),
    AlterUser: StatementSpec(
        "ALTER USER u SET …",
        "changes a user",
        {"ALTER USER": users.alter_user},
        InWarehouse("manage users"),
        "define.alter_user",
        StatementDone,
    ),
    DropUser: StatementSpec(
        "DROP USER [IF EXISTS] u",
        "removes a user from the catalog; the rows stay",
        {"DROP USER": users.drop_user},
        InWarehouse("manage users"),
        "define.drop_user",
        StatementDone,
    ),
    CreateView: StatementSpec(
        "CREATE [OR REPLACE] VIEW [IF NOT EXISTS] v AS SELECT …",
        "keeps a query under a name",
        {"CREATE VIEW": tables.create_view, "CREATE OR REPLACE": tables.replace_view},
        InWarehouse("create views"),
        "define.create_view",
        StatementDone,
        audited=AuditEntrySpec("CREATE_VIEW", "view", "view"),
    ),
    DropView: StatementSpec(
        "DROP VIEW [IF EXISTS] v",
        "removes a view",
        {"DROP VIEW": tables.drop_view},
        InWarehouse("create views"),
        "define.drop_view",
        StatementDone,
        audited=AuditEntrySpec("DROP_VIEW", "view", "view"),
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
        "replace.overwrite",
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
        "replace.truncate",
        AffectedRows,
        requires=Requirement("updates", "TRUNCATE"),
        audited=AuditEntrySpec("TRUNCATE_TABLE", "table", "table"),
    ),
    Merge: StatementSpec(
        "MERGE INTO t USING (VALUES …), (SELECT …) or a table AS s ON t.key = s.…"
        " [WHEN MATCHED [AND …] THEN UPDATE SET … or *, DELETE or DO NOTHING]"
        " [WHEN NOT MATCHED [AND …] THEN INSERT (…) VALUES (…) or *, or DO NOTHING]",
        "changes, removes and adds rows by those of a source",
        {"MERGE": merge.merge},
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
        "query.query",
        ResultRows,
    ),
    Explain: StatementSpec(
        "EXPLAIN SELECT …",
        "shows how a query would run",
        {"EXPLAIN": rows.explain},
        "read",
        "query.explain",
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
    StorageJob: StatementSpec(
        "STORAGE FLUSH or COMPACT TABLE n.t or ALL [IN NAMESPACE n] [RATIO n] [LOOK] [DRY RUN]",
        "flushes or compacts tables, as jobs",
        _STORAGE,
        "job",
        "operate.storage_job",
        StartedJobs | StatementDone | ResultRows,
        requires=_cold("flushes and compactions"),
    ),
    MoveTable: StatementSpec(
        "STORAGE MOVE TABLE n.t TO s [DRY RUN] or CANCEL",
        "moves a table to another storage, as a job",
        _STORAGE,
        operation_right("move"),
        "operate.move_table",
        StartedJobs | StatementDone | ResultRows,
        requires=_cold("moves between storages"),
        audited=AuditEntrySpec("MOVE_TABLE", "table", "table"),
    ),
    Optimize: StatementSpec(
        "OPTIMIZE t [WHERE condition on partition columns] [ZORDER BY (…)] [LOOK] [FOR ALL USERS] [DRY RUN]",
        "packs or sorts files",
        {"OPTIMIZE": upkeep.optimize},
        ScopesRight("optimize"),
        "operate.optimize",
        StatementDone | ResultRows,
        requires=_cold("OPTIMIZE"),
    ),
    Vacuum: StatementSpec(
        "VACUUM t [RETAIN n HOURS [FORCE]] [LOOK] [FOR ALL USERS] [DRY RUN]",
        "removes files that no kept version needs",
        {"VACUUM": upkeep.vacuum},
        ScopesRight("vacuum"),
        "operate.vacuum",
        StatementDone | ResultRows,
        requires=_cold("VACUUM"),
    ),
    Restore: StatementSpec(
        "RESTORE [TABLE] t TO VERSION AS OF n or TIMESTAMP AS OF '…' [FOR ALL USERS] [DRY RUN]",
        "goes back to a version",
        {"RESTORE": upkeep.restore},
        ScopesRight("restore"),
        "operate.restore",
        StatementDone | ResultRows,
        requires=_cold("RESTORE"),
    ),
    ApplyPlan: StatementSpec(
        "APPLY PLAN 'id'",
        "does what a dry run planned",
        {"APPLY": upkeep.apply},
        "plan",
        "operate.apply_plan",
        StatementDone,
        audited=AuditEntrySpec("APPLY_PLAN", "plan"),
    ),
    KillJob: StatementSpec(
        "KILL JOB 'id'",
        "ends a job",
        _KILL,
        InWarehouse("kill jobs"),
        "operate.kill_job",
        StatementDone,
        audited=AuditEntrySpec("KILL_JOB", "job"),
    ),
    KillLiveQuery: StatementSpec(
        "KILL LIVE QUERY 'id'",
        "ends a subscription",
        _KILL,
        InWarehouse("kill jobs"),
        "operate.kill_live_query",
        StatementDone,
        audited=AuditEntrySpec("KILL_LIVE_QUERY", "live"),
    ),
    ExportUserData: StatementSpec(
        "EXPORT USER DATA",
        "exports all that the session's user has, as a job",
        {"EXPORT": upkeep.export},
        InWarehouse("export their own data"),
        "operate.export_user_data",
        StartedJobs | StatementDone,
    ),
}


def gives_rows(statement: Statement) -> bool:
    """Whether the statement answers with rows, and changes nothing."""
    if isinstance(statement, ExecuteAs):
        return gives_rows(statement.statement)
    spec = STATEMENTS.get(type(statement))
    return spec is not None and (spec.result is ResultRows or getattr(statement, "dry_run", False))


def grammars() -> dict[str, dict[str, Grammar]]:
    """What reads a statement, by its first word and by all the words that it begins with: longer ones first."""
    found = {words: grammar for spec in STATEMENTS.values() for words, grammar in spec.begins.items()}
    made: dict[str, dict[str, Grammar]] = {}
    for words in sorted(found, key=lambda one: -len(one.split())):
        made.setdefault(words.split()[0], {})[words] = found[words]
    return made


def objects(verb: str) -> tuple[str, ...]:
    """The kinds of objects that a verb such as CREATE takes."""
    kinds = (words.split()[-1] for spec in STATEMENTS.values() for words in spec.begins if words.split()[0] == verb)
    return tuple(dict.fromkeys(kind for kind in kinds if kind != "REPLACE"))
