"""The private names of launchers and of the retries of runs."""

from __future__ import annotations

from dagster._core.launcher import CheckRunHealthResult, LaunchRunContext, WorkerStatus
from dagster._daemon.auto_run_reexecution.event_log_consumer import DAGSTER_EVENT_TYPES
from dagster._daemon.auto_run_reexecution.event_log_consumer import _create_cursor_key as cursor_key
from dagster._serdes import ConfigurableClassData

__all__ = [
    "DAGSTER_EVENT_TYPES",
    "CheckRunHealthResult",
    "ConfigurableClassData",
    "LaunchRunContext",
    "WorkerStatus",
    "cursor_key",
]
