"""The fan-out over scopes as one Spark job: a task is a pack of scopes, run by plain Python functions."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from lakewarden.base.clock import NewId, random_id
from lakewarden.base.commit_metadata import carried, carrying
from lakewarden.base.setting_sections import SparkSettings
from lakewarden.errors import LakewardenError, StorageUnavailable, Unsupported
from lakewarden.spark.connection import forget_archives
from lakewarden.storage.meter import add_all, metered
from lakewarden.storage.steps import Steps, together
from lakewarden.tables.fanout import Advance, SizedWork, pack

T = TypeVar("T")
R = TypeVar("R")

_RESULT_BOUND = "spark.driver.maxResultSize"
"""Spark's bound on what a job's tasks return together; its name is in the error of a job that was ended by it."""

_LOOK_EVERY = 0.25
"""Seconds between two checks of a job's progress; only a progress bar waits for them."""


@dataclass(frozen=True)
class SparkFanOut:
    """A `FanOut` over Spark's executors."""

    spark: SparkSession
    settings: SparkSettings
    new_id: NewId = random_id

    def __call__(self, work: Callable[[T], Steps[R]], items: Sequence[SizedWork[T]], advance: Advance) -> list[R]:
        """Raises:
        StorageUnavailable: a task failed on every try, so an executor or the cluster is gone.
        Unsupported: the tasks return more than `spark.driver.maxResultSize`.
        LakewardenError: what `advance` raised to stop the work; no further task was started.
        """
        if not items:
            return []
        context = self.spark.sparkContext
        packs = pack(items, max_bytes=self._pack_bytes(items, context), max_items=self.settings.task_scopes)
        group = f"lakewarden-{self.new_id()}"
        context.setJobGroup(group, f"lakewarden: {len(items)} scopes")
        chunks = [[items[index].work for index in chunk] for chunk in packs]
        with _progress(context, group, len(items) / len(packs), len(items), advance) as stops:
            try:
                answers = context.parallelize(chunks, len(chunks)).map(_over(work)).collect()
            except Py4JJavaError as error:
                if stops:
                    raise stops[0] from error
                raise _failed(str(error.java_exception).splitlines()[0]) from error
        results: dict[int, R] = {}
        for chunk, (answer, spent) in zip(packs, answers, strict=True):
            results.update(zip(chunk, answer, strict=True))
            add_all(spent)
        return [results[index] for index in range(len(items))]

    def _pack_bytes(self, items: Sequence[SizedWork[T]], context: SparkContext) -> int:
        """At least four packs a core where there is enough work, so that no core idles while the last pack runs."""
        fair = sum(item.bytes for item in items) // (4 * context.defaultParallelism) + 1
        return min(self.settings.task_bytes, max(fair, _SMALLEST_PACK))


_SMALLEST_PACK = 256 << 10
"""Below this a task's own cost (some 10 ms) is more than its work."""


def _failed(reason: str) -> LakewardenError:
    if _RESULT_BOUND in reason:
        return Unsupported(f"the answers of the tasks are too large for the driver: {reason}")
    return StorageUnavailable(f"the Spark job failed: {reason}")


def _over(work: Callable[[T], Steps[R]]) -> Callable[[list[T]], tuple[list[R], Mapping[str, Mapping[str, int]]]]:
    """The work on a pack, with what it requested of object stores."""
    metadata = carried()

    def run(chunk: list[T]) -> tuple[list[R], Mapping[str, Mapping[str, int]]]:
        with carrying(metadata), metered() as spent:
            results = together(map(work, chunk))
        forget_archives()
        return results, spent.by_table()

    return run


@contextmanager
def _progress(context: SparkContext, group: str, a_task: float, total: int, advance: Advance) -> Iterator[list[LakewardenError]]:
    """Calls `advance` while the job runs, and with the rest on success. Yields the error by which `advance` stopped the job."""
    ended = threading.Event()
    stops: list[LakewardenError] = []
    reported = 0

    def look() -> None:
        nonlocal reported
        while not ended.wait(_LOOK_EVERY):
            if stops:
                context.cancelJobGroup(group)  # again and again: it does nothing to a job that is not submitted yet
                continue
            seen = int(_finished_tasks(context, group) * a_task)
            try:
                advance(max(seen - reported, 0))
            except LakewardenError as stop:
                stops.append(stop)
            reported = max(seen, reported)

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield stops
    finally:
        ended.set()
        watcher.join()
    advance(total - reported)


def _finished_tasks(context: SparkContext, group: str) -> int:
    tracker = context.statusTracker()
    stages = (tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group))
    infos = (tracker.getStageInfo(stage) for job in stages if job for stage in job.stageIds)
    return sum(info.numCompletedTasks for info in infos if info)
