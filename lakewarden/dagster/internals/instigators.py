"""The private names of what starts runs by itself: sensors, schedules, and their ticks."""

from __future__ import annotations

from dagster._core.definitions.run_request import InstigatorType
from dagster._core.scheduler.instigation import InstigatorState, InstigatorTick, TickStatus

__all__ = ["InstigatorState", "InstigatorTick", "InstigatorType", "TickStatus"]
