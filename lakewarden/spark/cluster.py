"""Spark as the rooms below use it: its session starts when work first needs it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from lakewarden.base.setting_sections import SparkSettings

if TYPE_CHECKING:
    from lakewarden.catalog.report import ScopeReport
    from lakewarden.maintenance.flush_task import FlushTask
    from lakewarden.spark.session import SparkSession
    from lakewarden.tables.fanout import FanOut

StartSpark = Callable[[], "SparkSession"]


class SparkCluster:
    """A session: passed in, of this process, or one of its own (`maintenance.engine.Cluster`)."""

    def __init__(self, settings: SparkSettings, start: StartSpark | None) -> None:
        self._settings = settings
        self._start = start
        self._own: SparkSession | None = None
        self._stops = False
        """Whether the session was started here, and ends with this."""

    # Each import below brings the JVM's client: a second that most commands never need.

    def session(self) -> SparkSession:
        """
        Raises:
            Unsupported: Java is missing or too old.
            StorageUnavailable: Spark did not start.
        """
        if self._start is not None:
            return self._start()
        if self._own is None:
            from lakewarden.spark.session import is_running, start_session

            self._stops = not is_running()
            self._own = start_session(self._settings)
        return self._own

    def fan_out(self) -> FanOut:
        spark = self.session()
        from lakewarden.spark.fanout import SparkFanOut

        return SparkFanOut(spark, self._settings)

    def flush_large(self, task: FlushTask) -> ScopeReport:
        spark = self.session()
        from lakewarden.spark.large import flush_large

        return flush_large(spark, task, over_s3a=self._settings.s3a)

    def close(self) -> None:
        if self._own is not None and self._stops:
            self._own.stop()
        self._own = None
