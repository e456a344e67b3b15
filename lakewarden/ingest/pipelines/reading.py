"""Reads the objects of a batch by the pipeline's template: rows of each into a file of its own, or the reason why not."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import count
from pathlib import Path

from lakewarden.base.setting_sections import PipelinesSettings
from lakewarden.base.threads import Threads
from lakewarden.catalog.model import Pipeline
from lakewarden.catalog.state.ledger import OfferedObject
from lakewarden.errors import Conflict, InvalidArgument, NotFound, StorageRefused
from lakewarden.ingest.templates.messages import ReadBounds
from lakewarden.ingest.templates.object_file import Ranges
from lakewarden.ingest.templates.options import parse_options, template_named
from lakewarden.ingest.templates.template import Columns
from lakewarden.ingest.templates.worker import BoundedReads, ObjectRows, ReadJob, ReadRejected
from lakewarden.storage.objects import Missing
from lakewarden.storage.sources import ObjectChanged, ObjectSource, SourceObject


@dataclass(frozen=True)
class ObjectGone:
    """The object is no longer the one that was listed."""

    reason: str


Outcome = ObjectRows | ReadRejected | ObjectGone

ReadObject = Callable[[SourceObject, Columns, Ranges, Path], ObjectRows | ReadRejected]
"""Reads one object: with the table's columns, by ranges of it, into a file. Errors of the ranges come through unchanged."""


@dataclass
class Reading:
    """The objects of one batch, read with the columns that the table has then, or later with more of them."""

    source: ObjectSource
    read: ReadObject
    each: Callable[[Callable[[int], Outcome], Sequence[int]], list[Outcome]]
    """Calls the function for every number, perhaps several at the same time."""
    directory: Path
    objects: Sequence[OfferedObject]
    _files: Iterator[int] = field(default_factory=count)

    def rest(self, columns: Columns, first: int) -> list[Outcome]:
        """All objects from that number on."""
        return self.each(lambda number: self.one(number, columns), range(first, len(self.objects)))

    def one(self, number: int, columns: Columns) -> Outcome:
        """Raises:
        StorageUnavailable, StorageRefused: the store fails, or refuses this process everything: no object is at fault.
        """
        uploaded = self.objects[number].object
        if uploaded.refused:
            return ReadRejected(StorageRefused.code, uploaded.refused)
        try:
            with self.source.open(uploaded) as file:

                def ranges(start: int, length: int) -> bytes:
                    file.seek(start)
                    return file.read(length)

                found = self.read(uploaded, columns, _watched(ranges, uploaded), self.directory / f"{next(self._files)}.arrow")
            self.source.prove(uploaded)
        except (Missing, NotFound):
            return ObjectGone("it was removed before it was read")
        except (ObjectChanged, Conflict):
            return ObjectGone("it was replaced before it was read")
        except InvalidArgument as error:
            return ReadRejected(error.code, error.message)
        except StorageRefused as error:
            next(iter(self.source.uploads()), None)  # raises where the store refuses everything: then no object is at fault
            return ReadRejected(error.code, error.message)
        return found


ReadWith = Callable[[ObjectSource, Pipeline, Sequence[OfferedObject], Path], Reading]
"""Prepares to read objects of a source, by the template of a pipeline, into files of a directory."""


def _watched(ranges: Ranges, uploaded: SourceObject) -> Ranges:
    """Ranges whose errors a template does not take for its own."""

    def read(start: int, length: int) -> bytes:
        try:
            data = ranges(start, length)
        except Missing:
            raise NotFound(f"{uploaded.key} was removed while it was read") from None
        except ObjectChanged:
            raise Conflict(f"{uploaded.key} was replaced while it was read") from None
        if len(data) < length:
            raise Conflict(f"{uploaded.key} became shorter while it was read")
        return data

    return read


# Reads the objects of a batch in child processes within bounds, several at a time: an object that passes one stops no other.
@contextmanager
def bounded(settings: PipelinesSettings) -> Iterator[ReadWith]:
    """Holds the processes; raises `Internal` where none can be started."""
    with BoundedReads(_bounds(settings), settings.workers) as reads, Threads(settings.workers) as threads:

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

    def read(uploaded: SourceObject, columns: Columns, ranges: Ranges, into: Path) -> ObjectRows | ReadRejected:
        return reads.read(ReadJob(pipeline.template, uploaded.key, uploaded.size, options, columns), ranges, into)

    return read
