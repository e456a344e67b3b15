"""The private names of Dagster's storages and their tables."""

from __future__ import annotations

from dagster._core.storage.event_log import EventLogStorage, SqlEventLogStorage, SqliteEventLogStorage
from dagster._core.storage.event_log.schema import (
    AssetCheckExecutionsTable,
    AssetEventTagsTable,
    AssetKeyTable,
    SqlEventLogStorageTable,
)
from dagster._core.storage.runs import SqlRunStorage
from dagster._core.storage.runs.schema import BackfillTagsTable, BulkActionsTable, KeyValueStoreTable, RunsTable, RunTagsTable
from dagster._core.storage.schedules import SqlScheduleStorage
from dagster._core.storage.schedules.schema import AssetDaemonAssetEvaluationsTable, InstigatorsTable, JobTable, JobTickTable
from dagster._core.storage.sqlite_storage import DagsterSqliteStorage

__all__ = [
    "AssetCheckExecutionsTable",
    "AssetDaemonAssetEvaluationsTable",
    "AssetEventTagsTable",
    "AssetKeyTable",
    "BackfillTagsTable",
    "BulkActionsTable",
    "DagsterSqliteStorage",
    "EventLogStorage",
    "InstigatorsTable",
    "JobTable",
    "JobTickTable",
    "KeyValueStoreTable",
    "RunTagsTable",
    "RunsTable",
    "SqlEventLogStorage",
    "SqlEventLogStorageTable",
    "SqlRunStorage",
    "SqlScheduleStorage",
    "SqliteEventLogStorage",
]
