"""Where work over scopes runs: a few in this process, many in Spark, whose session starts when it is first needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from lakewarden.base.quantities import in_units
from lakewarden.base.settings import Settings
from lakewarden.errors import Unsupported

if TYPE_CHECKING:
    from lakewarden.catalog.report import ScopeReport
    from lakewarden.maintenance.flush_task import FlushTask
    from lakewarden.storage.steps import Steps
    from lakewarden.tables.fanout import FanOut, SizedWork

T = TypeVar("T")
R = TypeVar("R")

Progress = Callable[[int, int], None]
"""Called with the number of scopes just finished, and the total."""


class Cluster(Protocol):
    """What work needs of Spark (`spark.cluster`); each call may start the session."""

    def fan_out(self) -> FanOut:
        """Over its executors."""

    def flush_large(self, task: FlushTask) -> ScopeReport:
        """Flushes a scope that is too large for one process."""

    def close(self) -> None:
        """Ends the session, if it was started for this."""


def silent(done: int, total: int) -> None:
    """Ignores progress."""


class WorkEngine:
    """Runs work over scopes; `tables.fanout.Run` is its interface."""

    def __init__(self, settings: Settings, progress: Progress, cluster: Cluster | None) -> None:
        """Without a cluster, all work is done in this process."""
        self._settings = settings
        self.progress = progress
        self.cluster = cluster

    def run(self, work: Callable[[T], Steps[R]], items: Sequence[SizedWork[T]]) -> list[R]:
        """The results in the order of the items."""
        total = len(items)
        if total >= self._settings.flush.in_process_below and self.cluster is not None:
            return self.cluster.fan_out()(work, items, lambda done: self.progress(done, total))
        from lakewarden.storage.steps import together
        from lakewarden.tables.fanout import threads_for  # brings Delta, which a command that only looks need not load

        with threads_for(items) as pool:
            return together((work(item.work) for item in items), pool.map, lambda: self.progress(1, total))

    def run_large(self, work: Callable[[T], Steps[R]], items: Sequence[SizedWork[T]], here: int) -> list[R]:
        """As `run`, in this process where the items have fewer bytes than `here` together, whatever their number."""
        total = len(items)
        if self.cluster is None or sum(item.bytes for item in items) < here:
            from lakewarden.tables.fanout import in_process  # as in `run`

            return in_process(work, items, lambda done: self.progress(done, total))
        return self.cluster.fan_out()(work, items, lambda done: self.progress(done, total))

    def watched(self, watch: Callable[[int, int], object]) -> WorkEngine:
        """The same engine for one job: `watch` is called too, and stops the work when it raises."""

        def both(done: int, total: int) -> None:
            watch(done, total)
            self.progress(done, total)

        return WorkEngine(self._settings, both, self.cluster)

    def flush_large(self, task: FlushTask) -> ScopeReport:
        """
        Raises:
            Unsupported: there is no cluster.
        """
        if self.cluster is None:
            raise Unsupported(
                f"{task.target.scope} has {in_units(task.pending.bytes)} pending, which need Spark, and this engine has none"
            )
        return self.cluster.flush_large(task)

    def close(self) -> None:
        if self.cluster is not None:
            self.cluster.close()
