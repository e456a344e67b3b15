"""The flush of one scope, as it is sent to a task, or to Spark where the scope is too large for one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lakewarden.base.clock import CarriedClock
from lakewarden.catalog.report import ScopeReport
from lakewarden.catalog.target import ScopeTarget
from lakewarden.log.view import PendingRows


@dataclass(frozen=True)
class FlushTask:
    """It carries the places of the rows, never the rows."""

    target: ScopeTarget
    state_uri: str
    pending: PendingRows
    end: int
    job_id: str
    attempts: int
    large_bytes: int
    clock: CarriedClock
    """Goes on from when the scope's place was read."""
    plan_id: str = ""
    """The plan being applied, if any; then rows beyond `end` stay in the log."""
    kept_seconds: float | bool = True
    """How long the log keeps the rows behind the flush, as `TableLog.settle` takes it."""


FlushLarge = Callable[[FlushTask], ScopeReport]
"""Flushes a scope that is too large for one task (`spark.large.flush_large`)."""
