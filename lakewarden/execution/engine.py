"""Where work over scopes runs: a few in this process, many in Spark, whose session starts when it is first needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from lakewarden.settings import Settings

if TYPE_CHECKING:
    from lakewarden.operations.fanout import FanOut, Sized
    from lakewarden.spark.session import SparkSession
    from lakewarden.storage.steps import Steps

T = TypeVar("T")
R = TypeVar("R")

Progress = Callable[[int, int], None]
"""Called with the number of scopes just finished, and the total."""

StartSpark = Callable[[], "SparkSession"]


def silent(done: int, total: int) -> None:
    """Ignores progress."""


class Engine:
    """Runs work over scopes; `operations.fanout.Run` is its interface."""

    def __init__(self, settings: Settings, progress: Progress, spark: StartSpark | None) -> None:
        self._settings = settings
        self._progress = progress
        self._borrowed = spark
        self._own: SparkSession | None = None
        self._stops = False
        """Whether the session was started here, and ends with this."""

    def run(self, work: Callable[[T], Steps[R]], items: Sequence[Sized[T]]) -> list[R]:
        """The results in the order of the items."""
        total = len(items)
        return self._fan_out(total)(work, items, lambda done: self._progress(done, total))

    def run_large(self, work: Callable[[T], Steps[R]], items: Sequence[Sized[T]], here: int) -> list[R]:
        """As `run`, in this process where the items have fewer bytes than `here` together, whatever their number."""
        total = len(items)
        fan_out = self._here() if sum(item.bytes for item in items) < here else self._spread()
        return fan_out(work, items, lambda done: self._progress(done, total))

    def watched(self, watch: Progress) -> Engine:
        """The same engine for one job: `watch` is called too, and stops the work when it raises."""

        def both(done: int, total: int) -> None:
            watch(done, total)
            self._progress(done, total)

        return Engine(self._settings, both, self.spark)

    def spark(self) -> SparkSession:
        """The Spark session: the one that was passed in, or runs in this process; or our own, started at the first call."""
        if self._borrowed is not None:
            return self._borrowed()
        if self._own is None:
            from lakewarden.spark.session import is_running, start_session  # the JVM's client: a second that few commands need

            self._stops = not is_running()
            self._own = start_session(self._settings.spark)
        return self._own

    def close(self) -> None:
        if self._own is not None and self._stops:
            self._own.stop()
        self._own = None

    def _fan_out(self, items: int) -> FanOut:
        return self._here() if items < self._settings.flush.in_process_below else self._spread()

    def _here(self) -> FanOut:
        from lakewarden.operations.fanout import in_process  # brings Delta, which a command that only looks need not load

        return in_process

    def _spread(self) -> FanOut:
        spark = self.spark()
        from lakewarden.spark.fanout import SparkFanOut  # as above

        return SparkFanOut(spark, self._settings.spark)
