"""Lakewarden in Dagster: tables as assets, operations as jobs, and the sensors and schedules that start them.

    from lakewarden.dagster import build_definitions

    defs = build_definitions("s3://lake/prod")

Names are imported when they are used: every process of Dagster loads the launcher below this package, and needs no more.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakewarden.dagster.component import WarehouseComponent
    from lakewarden.dagster.definitions import build_definitions
    from lakewarden.dagster.jobs.runs import RETRIES, declined, job_tags
    from lakewarden.dagster.mount import Mount, Pools
    from lakewarden.dagster.orchestration.alerts import FailedAssetCheck, FailedRun, Webhook
    from lakewarden.dagster.orchestration.schedules import Surveys
    from lakewarden.dagster.spark_session import SparkResource

__all__ = [
    "RETRIES",
    "FailedAssetCheck",
    "FailedRun",
    "Mount",
    "Pools",
    "SparkResource",
    "Surveys",
    "WarehouseComponent",
    "Webhook",
    "build_definitions",
    "declined",
    "job_tags",
]

_MODULES = {
    "FailedAssetCheck": "orchestration.alerts",
    "FailedRun": "orchestration.alerts",
    "Mount": "mount",
    "Pools": "mount",
    "RETRIES": "jobs.runs",
    "SparkResource": "spark_session",
    "Surveys": "orchestration.schedules",
    "WarehouseComponent": "component",
    "Webhook": "orchestration.alerts",
    "build_definitions": "definitions",
    "declined": "jobs.runs",
    "job_tags": "jobs.runs",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})  # dg finds components by it
