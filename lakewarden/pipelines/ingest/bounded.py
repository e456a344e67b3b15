"""Reads the objects of a batch in child processes within bounds, several at a time: an object that passes one stops no other."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from lakewarden.catalog.pipeline import Pipeline
from lakewarden.pipelines.ingest.reading import Outcome, Reading, ReadRows, ReadWith, Refused
from lakewarden.pipelines.ledger.entries import Offered
from lakewarden.pipelines.running.bounds import Bounds
from lakewarden.pipelines.running.reads import BoundedReads
from lakewarden.pipelines.running.worker import Job, Rejected
from lakewarden.pipelines.templates.options import parse_options
from lakewarden.pipelines.templates.registry import template_named
from lakewarden.pipelines.templates.template import Columns
from lakewarden.settings import PipelinesSettings
from lakewarden.storage.sources.uploaded import Source, Uploaded


@contextmanager
def bounded(settings: PipelinesSettings) -> Iterator[ReadWith]:
    """Holds the processes; raises `Internal` where none can be started."""
    bounds = Bounds(memory_bytes=settings.object_memory_bytes, wall_seconds=settings.object_seconds)
    with BoundedReads(bounds, settings.workers) as reads, ThreadPoolExecutor(settings.workers) as threads:

        def each(work: Callable[[int], Outcome], numbers: Sequence[int]) -> list[Outcome]:
            return list(threads.map(work, numbers))

        def read_with(source: Source, pipeline: Pipeline, objects: Sequence[Offered], directory: Path) -> Reading:
            return Reading(source, _reader(reads, pipeline), each, directory, objects)

        yield read_with


def _reader(
    reads: BoundedReads, pipeline: Pipeline
) -> Callable[[Uploaded, Columns, Callable[[int, int], bytes], Path], ReadRows | Refused]:
    """Raises:
    NotFound, InvalidArgument, Unsupported: the template is gone, or does not take the options: no object can be read.
    """
    options: dict[str, object] = json.loads(pipeline.options)
    parse_options(template_named(pipeline.template), options)

    def read(uploaded: Uploaded, columns: Columns, ranges: Callable[[int, int], bytes], into: Path) -> ReadRows | Refused:
        found = reads.read(Job(pipeline.template, uploaded.key, uploaded.size, options, columns), ranges, into)
        return Refused(found.reason) if isinstance(found, Rejected) else ReadRows(found.rows, found.columns, into)

    return read
