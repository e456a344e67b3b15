"""The rows of statements that define what exists: tables, namespaces, storages, users, views, the warehouse."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from lakewarden.sql.grammar import pipelines, places, session, tables
from lakewarden.sql.results import AffectedRows, ResultRows, StatementDone
from lakewarden.sql.specs.spec import (
    AuditEntrySpec,
    Grammar,
    InWarehouse,
    StatementSpec,
    TableRight,
    operation_right,
)
from lakewarden.sql.statements.base import Statement
from lakewarden.sql.statements.definitions import (
    AlterNamespace,
    AlterRule,
    AlterStorage,
    AlterTable,
    AlterUser,
    AlterWarehouse,
    CheckStorage,
    CompactTable,
    CreateFromTemplate,
    CreateNamespace,
    CreateStorage,
    CreateTable,
    CreateTableAs,
    CreateTemporaryTable,
    CreateUser,
    CreateView,
    DescribeExtended,
    DisableEngine,
    DropNamespace,
    DropPartition,
    DropPipeline,
    DropStorage,
    DropTable,
    DropTemporaryTable,
    DropUser,
    DropView,
    EnableEngine,
    ShowEngines,
    ShowPipelines,
    ShowRules,
    ShowSettings,
    UseNamespace,
)
from lakewarden.sql.statements.session import (
    SetTableStorage,
)


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


_SHOW: Mapping[str, Grammar] = {"SHOW": session.show}
_DESCRIBE: Mapping[str, Grammar] = {"DESCRIBE": session.describe, "DESC": session.describe}
_STORAGE: Mapping[str, Grammar] = {"STORAGE": places.storage}


DEFINITIONS: Mapping[type[Statement], StatementSpec] = {
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
        "warehouse.create_from_template",
        StatementDone,
        audited=AuditEntrySpec("CREATE_TABLE", "table", "table"),
    ),
    DropPipeline: StatementSpec(
        "DROP PIPELINE [IF EXISTS] p",
        "removes a pipeline, its rule, and the record of what it took; its table stays",
        {"DROP PIPELINE": pipelines.drop_pipeline},
        "pipeline",
        "warehouse.drop_pipeline",
        StatementDone,
        audited=AuditEntrySpec("DROP_PIPELINE", "pipeline", "pipeline"),
    ),
    AlterRule: StatementSpec(
        "ALTER RULE r SET GLOBS = ('…', …), EXCLUDES = (…), MIME_TYPES = (…), MIN_SIZE = n, MAX_SIZE = n,"
        " ENABLED = true or false",
        "changes which objects a pipeline takes",
        {"ALTER RULE": pipelines.alter_rule},
        "pipeline",
        "warehouse.alter_rule",
        StatementDone,
        audited=AuditEntrySpec("ALTER_RULE", "rule", "rule"),
    ),
    ShowRules: StatementSpec(
        "SHOW RULES [IN n]",
        "lists the rules of pipelines",
        _SHOW,
        InWarehouse("look at what exists"),
        "warehouse.show_rules",
        ResultRows,
    ),
    ShowPipelines: StatementSpec(
        "SHOW PIPELINES [IN n]",
        "lists pipelines, with the place where objects are uploaded",
        _SHOW,
        InWarehouse("look at what exists"),
        "warehouse.show_pipelines",
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
        "tables.create_temporary_table",
        StatementDone,
    ),
    DropTemporaryTable: StatementSpec(
        "DROP TEMPORARY TABLE [IF EXISTS] t",
        "removes a table of the session",
        {f"DROP {word} TABLE": tables.drop_temporary_table for word in _TEMPORARY},
        "read",
        "tables.drop_temporary_table",
        StatementDone,
    ),
    CreateNamespace: StatementSpec(
        "CREATE NAMESPACE [IF NOT EXISTS] n",
        "creates a namespace",
        {"CREATE NAMESPACE": places.create_namespace},
        InWarehouse("manage namespaces"),
        "define.create_namespace",
        StatementDone,
        audited=AuditEntrySpec("CREATE_NAMESPACE", "namespace", "name"),
    ),
    AlterNamespace: StatementSpec(
        "ALTER NAMESPACE n SET DESCRIPTION '…'",
        "describes a namespace",
        {"ALTER NAMESPACE": places.alter_namespace},
        InWarehouse("manage namespaces"),
        "define.alter_namespace",
        StatementDone,
        audited=AuditEntrySpec("ALTER_NAMESPACE", "namespace", "name"),
    ),
    DropNamespace: StatementSpec(
        "DROP NAMESPACE [IF EXISTS] n [CASCADE]",
        "removes a namespace; with CASCADE its tables too",
        {"DROP NAMESPACE": places.drop_namespace},
        InWarehouse("manage namespaces"),
        "define.drop_namespace",
        StatementDone,
        audited=AuditEntrySpec("DROP_NAMESPACE", "namespace", "name"),
    ),
    UseNamespace: StatementSpec(
        "USE n",
        "chooses the session's namespace",
        {"USE": places.use, "SET NAMESPACE": places.use},
        InWarehouse("look at what exists"),
        "define.use_namespace",
        StatementDone,
    ),
    EnableEngine: StatementSpec(
        "ENABLE ENGINE n [SETTINGS '{…}']",
        "enables the engine of a namespace",
        {"ENABLE ENGINE": places.enable_engine},
        InWarehouse("manage namespaces"),
        "warehouse.enable_engine",
        StatementDone,
        audited=AuditEntrySpec("ENABLE_ENGINE", "namespace", "name"),
    ),
    DisableEngine: StatementSpec(
        "DISABLE ENGINE n",
        "disables the engine of a namespace: its tables take no reads, writes and jobs; nothing is deleted",
        {"DISABLE ENGINE": places.disable_engine},
        InWarehouse("manage namespaces"),
        "warehouse.disable_engine",
        StatementDone,
        audited=AuditEntrySpec("DISABLE_ENGINE", "namespace", "name"),
    ),
    ShowEngines: StatementSpec(
        "SHOW ENGINES",
        "lists the engines of namespaces",
        _SHOW,
        InWarehouse("manage namespaces"),
        "warehouse.show_engines",
        ResultRows,
    ),
    DescribeExtended: StatementSpec(
        "DESCRIBE TABLE EXTENDED t [PARTITION (c = value, …)]",
        "shows the options and files of a dynamic table, or of one of its partitions",
        _DESCRIBE,
        TableRight("read"),
        "tables.describe_extended",
        ResultRows,
    ),
    CompactTable: StatementSpec(
        "ALTER TABLE t COMPACT",
        "flushes a dynamic table and packs its files; returns when that is done",
        _ALTER_TABLE,
        operation_right("optimize"),
        "tables.compact",
        StatementDone,
    ),
    DropPartition: StatementSpec(
        "ALTER TABLE t DROP [IF EXISTS] PARTITION (c = value, …)",
        "removes the rows of a dynamic table's partitions with these values",
        _ALTER_TABLE,
        TableRight("write"),
        "tables.drop_partition",
        AffectedRows,
        audited=AuditEntrySpec("DROP_PARTITION", "table", "table"),
    ),
    SetTableStorage: StatementSpec(
        "SET 'table-storage.key' = 'value'",
        "chooses an option of the dynamic tables that the session creates",
        {"SET": session.set_table_storage},
        "read",
        "tables.set_table_storage",
        StatementDone,
    ),
    CreateStorage: StatementSpec(
        "CREATE STORAGE s TYPE … [PATH '…'] [BUCKET '…'] [REGION '…'] [CREDENTIALS 'env:PREFIX']"
        ' [CONFIG \'{"endpoint": "…", "path_style": true}\'] […]',
        "tries a place and makes it a storage",
        {"CREATE STORAGE": places.create_storage},
        InWarehouse("manage storages"),
        "define.create_storage",
        StatementDone,
        audited=AuditEntrySpec("CREATE_STORAGE", "storage"),
    ),
    AlterStorage: StatementSpec(
        "ALTER STORAGE s SET … '…'",
        "changes a storage",
        {"ALTER STORAGE": places.alter_storage},
        InWarehouse("manage storages"),
        "define.alter_storage",
        StatementDone,
        audited=AuditEntrySpec("ALTER_STORAGE", "storage"),
    ),
    DropStorage: StatementSpec(
        "DROP STORAGE [IF EXISTS] s",
        "removes a storage that no table uses",
        {"DROP STORAGE": places.drop_storage},
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
        {"ALTER WAREHOUSE": session.alter_warehouse},
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
        {"CREATE USER": places.create_user},
        InWarehouse("manage users"),
        "define.create_user",
        StatementDone,
    ),
    AlterUser: StatementSpec(
        "ALTER USER u SET …",
        "changes a user",
        {"ALTER USER": places.alter_user},
        InWarehouse("manage users"),
        "define.alter_user",
        StatementDone,
    ),
    DropUser: StatementSpec(
        "DROP USER [IF EXISTS] u",
        "removes a user from the catalog; the rows stay",
        {"DROP USER": places.drop_user},
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
}
