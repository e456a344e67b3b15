"""The private names of launchers, retries and sensors that run."""

from __future__ import annotations

from dagster._core.definitions.run_request import InstigatorType
from dagster._core.launcher import CheckRunHealthResult, LaunchRunContext, WorkerStatus
from dagster._core.scheduler.instigation import InstigatorState, InstigatorTick, TickStatus
from dagster._daemon.auto_run_reexecution.event_log_consumer import DAGSTER_EVENT_TYPES
from dagster._daemon.auto_run_reexecution.event_log_consumer import _create_cursor_key as cursor_key
from dagster._serdes import ConfigurableClassData

__all__ = [
    "DAGSTER_EVENT_TYPES",
    "CheckRunHealthResult",
    "ConfigurableClassData",
    "InstigatorState",
    "InstigatorTick",
    "InstigatorType",
    "LaunchRunContext",
    "TickStatus",
    "WorkerStatus",
    "cursor_key",
]
