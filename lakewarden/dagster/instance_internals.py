"""The private names of Dagster's storages and their tables, of launchers and of the retries of runs."""

from __future__ import annotations

from dagster._core.launcher import CheckRunHealthResult, LaunchRunContext, WorkerStatus
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
from dagster._daemon.auto_run_reexecution.event_log_consumer import DAGSTER_EVENT_TYPES
from dagster._daemon.auto_run_reexecution.event_log_consumer import _create_cursor_key as cursor_key
from dagster._serdes import ConfigurableClassData
