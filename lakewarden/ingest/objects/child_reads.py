"""Reads the objects of a batch in child processes within bounds, several at a time: an object that passes one stops no other."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import cache, partial
from pathlib import Path

from lakewarden.base.settings import PipelinesSettings
from lakewarden.catalog.model import Pipeline
from lakewarden.catalog.state.ledger import OfferedObject
from lakewarden.ingest.objects.reading import Outcome, Reading, ReadObject, ReadRows, ReadWith, UnreadableObject
from lakewarden.ingest.running.bounds import ReadBounds
from lakewarden.ingest.running.reads import BoundedReads
from lakewarden.ingest.running.worker import ReadJob, ReadRejected
from lakewarden.ingest.templates.options import parse_options
from lakewarden.ingest.templates.registry import template_named
from lakewarden.ingest.templates.template import Columns
from lakewarden.storage.sources import ObjectSource, SourceObject


@contextmanager
def bounded(settings: PipelinesSettings) -> Iterator[ReadWith]:
    """Holds the processes; raises `Internal` where none can be started."""
    with BoundedReads(_bounds(settings), settings.workers) as reads, ThreadPoolExecutor(settings.workers) as threads:

        def each(work: Callable[[int], Outcome], numbers: Sequence[int]) -> list[Outcome]:
            return list(threads.map(work, numbers))

        def read_with(source: ObjectSource, pipeline: Pipeline, objects: Sequence[OfferedObject], directory: Path) -> Reading:
            return Reading(source, _reader(reads, pipeline), each, directory, objects)

        yield read_with


def reads_of_tasks(settings: PipelinesSettings, pipeline: Pipeline) -> Callable[[], AbstractContextManager[ReadObject]]:
    """What reads an object in a task. Picklable."""
    return partial(_read_in_task, settings, pipeline)


@contextmanager
def _read_in_task(settings: PipelinesSettings, pipeline: Pipeline) -> Iterator[ReadObject]:
    """The process that runs the task keeps its child for the tasks that follow."""
    yield _reader(_kept(_bounds(settings)), pipeline)


@cache
def _kept(bounds: ReadBounds) -> BoundedReads:
    return BoundedReads(bounds).__enter__()


def _bounds(settings: PipelinesSettings) -> ReadBounds:
    return ReadBounds(memory_bytes=settings.object_memory_bytes, wall_seconds=settings.object_seconds)


def _reader(reads: BoundedReads, pipeline: Pipeline) -> ReadObject:
    """Raises:
    NotFound, InvalidArgument, Unsupported: the template is gone, or does not take the options: no object can be read.
    """
    options: dict[str, object] = json.loads(pipeline.options)
    parse_options(template_named(pipeline.template), options)

    def read(
        uploaded: SourceObject, columns: Columns, ranges: Callable[[int, int], bytes], into: Path
    ) -> ReadRows | UnreadableObject:
        found = reads.read(ReadJob(pipeline.template, uploaded.key, uploaded.size, options, columns), ranges, into)
        return UnreadableObject(found.reason) if isinstance(found, ReadRejected) else ReadRows(found.rows, found.columns, into)

    return read
